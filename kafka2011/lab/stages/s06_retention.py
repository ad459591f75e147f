"""Stage 6: old segments are deleted, by age and by size."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from kafka2011.lab import paper
from kafka2011.lab.requests import fetch, message, message_set, offsets, produce

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka2011.lab.bench import Bench, BrokerUnderTest

_BEGINNING, _END = -2, -1
_CHECK_MS = 100
_KEEP_MS = 60_000
_OLD_S, _YOUNG_S = 3600, 20
_SOON_S = 2.0
_KEEP_BYTES = 100
_PAIR = message_set(b"one", b"two")
_SIZE = len(_PAIR)


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    with bench.broker(retention_ms=_KEEP_MS, retention_check_ms=_CHECK_MS) as broker:
        by_age(bench, broker)
        go_on(bench, broker)
    with bench.broker(retention_bytes=_KEEP_BYTES, retention_check_ms=_CHECK_MS) as broker:
        by_size(bench, broker)


def by_age(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try the setting retention-ms with segments of known ages."""
    logs = {
        "old": ("Old segments are deleted, the young one stays", [_OLD_S, _OLD_S, _YOUNG_S], {2}),
        "young": ("Young segments stay", [_YOUNG_S, _YOUNG_S, _YOUNG_S], {0, 1, 2}),
        "mixed": ("An old segment after a younger one stays", [_OLD_S, _YOUNG_S, _OLD_S], {1, 2}),
        "late": ("The oldest segment is young: all stay", [_YOUNG_S, _OLD_S, _OLD_S], {0, 1, 2}),
    }
    for topic, (_, ages_s, kept) in logs.items():
        _plant(broker, topic, ages_s, {number * _SIZE: _PAIR for number in kept})
    _plant(broker, "gone", [_OLD_S, _OLD_S, _OLD_S], {3 * _SIZE: b""})
    with bench.check(f"The program starts with retention-ms={_KEEP_MS}", paper.RETENTION):
        broker.start()
    for topic, (title, _, kept) in logs.items():
        with bench.check(title, paper.RETENTION):
            broker.expect_files(f"{topic}-0", {number * _SIZE: _PAIR for number in kept}, _SOON_S)
    with bench.check("When all segments are old, an empty one begins at the end of the log", paper.RETENTION):
        broker.expect_files("gone-0", {3 * _SIZE: b""}, _SOON_S)
    with bench.check("An offset that was deleted is error 1", paper.RETENTION):
        broker.ask(fetch("old", 0))
        broker.ask(fetch("old", _SIZE))
        broker.ask(fetch("gone", 0))
    with bench.check("The log begins with its oldest segment", paper.SORTED_LIST):
        for topic in ("old", "mixed", "gone"):
            broker.ask(offsets(topic, _BEGINNING))
            broker.ask(offsets(topic, _END))
        broker.ask(fetch("old", 2 * _SIZE))
        broker.ask(fetch("gone", 3 * _SIZE))


def go_on(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try that offsets go on, and that retention does too."""
    with bench.check("A log whose segments were all deleted goes on at its end", paper.NEXT_ID):
        broker.put(produce("gone", _PAIR))
        broker.ask(fetch("gone", 3 * _SIZE))
        broker.ask(offsets("gone", _END))
        broker.expect_files("gone-0", {3 * _SIZE: _PAIR})
    with bench.check("It does so after a new start too", paper.NEXT_ID):
        broker.kill()
        broker.start()
        broker.ask(offsets("gone", _BEGINNING))
        broker.ask(fetch("gone", 3 * _SIZE + 13))
    with bench.check("A segment that becomes old while the program runs is deleted", paper.RETENTION):
        for topic in ("new", "newer"):
            broker.put(produce(topic, _PAIR))
            time_s = time.time() - _OLD_S
            os.utime(broker.data / f"{topic}-0" / f"{0:020}.kafka", (time_s, time_s))
            broker.expect_files(f"{topic}-0", {_SIZE: b""}, _SOON_S)


def by_size(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try the setting retention-bytes."""
    quarter = message(b"x" * 15)  # 25 bytes
    logs: dict[str, tuple[str, list[bytes], int]] = {
        "five": ("Of 5 segments of 26 bytes, 104 bytes stay", [_PAIR] * 5, 1),
        "exact": ("Of 6 segments of 25 bytes, exactly 100 stay", [quarter] * 6, 2),
        "small": ("Less than 100 bytes stay as they are", [_PAIR] * 3, 0),
        "large": ("A last segment of 300 bytes stays, those before it go", [_PAIR, _PAIR, message(b"x" * 290)], 2),
        "first": ("A large first segment goes only if 100 bytes remain", [message(b"x" * 290), _PAIR, _PAIR], 0),
    }
    files: dict[str, dict[int, bytes]] = {}
    for topic, (_, segments, deleted) in logs.items():
        starts = [sum(map(len, segments[:number])) for number in range(len(segments))]
        every = dict(zip(starts, segments, strict=True))
        files[topic] = {start: every[start] for start in starts[deleted:]}
        broker.plant(f"{topic}-0", every, files[topic])
    with bench.check(f"The program starts with retention-bytes={_KEEP_BYTES}", paper.RETENTION):
        broker.start()
    for topic, (title, _, _) in logs.items():
        with bench.check(title, paper.RETENTION):
            broker.expect_files(f"{topic}-0", files[topic], _SOON_S)
            broker.ask(offsets(topic, _END))


def _plant(broker: BrokerUnderTest, topic: str, ages_s: Sequence[int], kept: Mapping[int, bytes]) -> None:
    """Write segments of 26 bytes that were last written at these ages."""
    broker.plant(f"{topic}-0", {number * _SIZE: _PAIR for number in range(len(ages_s))}, kept)
    now_s = time.time()
    for number, age_s in enumerate(ages_s):
        os.utime(broker.data / f"{topic}-0" / f"{number * _SIZE:020}.kafka", (now_s - age_s,) * 2)
