"""A broker's scrub: in a thread, and what it finds is in its log, in a file, and known to the doctor and to metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import gevent
from gevent.event import Event

from kafka2011.admin.doctor.machine import damage_in_logs
from kafka2011.broker.monitoring.metrics import DAMAGED, DIFFERING, SCRUB_FINISHED, scrub_samples
from kafka2011.broker.scrubber import NotComparedError, Scrubber
from kafka2011.config import BrokerConfig
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.scrub_record import DifferingRange, ScrubFile, SegmentKey
from kafka2011.message.message_set import encode
from tests.support.logs import new_log_manager
from tests.support.waiting import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from kafka2011.log.log_manager import LogManager
    from kafka2011.log.scrub import ClosedSegment

MESSAGE = encode(b"x" * 100)


def with_segments(log_dir: Path) -> LogManager:
    manager = new_log_manager(log_dir, of=lambda _topic: LogSettings(max_segment_bytes=1))
    manager.open()
    log = manager.get_or_create("views", 0)
    for _ in range(4):
        log.append(MESSAGE, 1)
    return manager


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def run_until(scrubber: Scrubber, stopping: Event, seen: Any) -> None:
    running = gevent.spawn(scrubber.run)
    with gevent.Timeout(TIMEOUT_S):
        while not seen():
            gevent.sleep(0.005)
        stopping.set()
        running.get()


def test_damage_of_a_closed_segment_is_found_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a restart it is still known, and when the last pass ended."""
    with with_segments(tmp_path) as manager:
        path = manager.log_dir / "views-0" / f"{len(MESSAGE):020}.kafka"
        flip(path, 50)
        stopping, told = Event(), []
        scrubber = Scrubber(manager, ScrubFile(tmp_path), stopping, 1 << 20, 24.0)
        scrubber.load()
        scrubber.on_damage = lambda: told.append(True)
        run_until(scrubber, stopping, lambda: manager.scrubbed.finished_s is not None)
        assert len(told) == 1
        assert caplog.text.count(f"damaged: views-0 at offset {len(MESSAGE)} in {path}: CRC differs") == 1
        samples = scrub_samples(manager.scrubbed, "3")
        assert samples[DAMAGED] == {("3", "views", "0"): 1}
        assert list(samples[SCRUB_FINISHED].values()) == [manager.scrubbed.finished_s]
        assert manager.scrubbed.scrubbed_bytes == 3 * len(MESSAGE)
        config = BrokerConfig.from_sources(
            None, {}, ("brokerid=3", f"log.dir={tmp_path}", "enable.zookeeper=false", "hostname=127.0.0.1")
        )
        finished_s = cast("float", manager.scrubbed.finished_s)
        (finding,) = damage_in_logs(config, finished_s)
        assert finding.what.startswith(f"views-0 at offset {len(MESSAGE)} in {path}: CRC differs")
        _, late = damage_in_logs(config, finished_s + 20 * 86_400)
        assert "last checked for damage 20 days ago" in late.what
    with new_log_manager(tmp_path) as manager:
        again = Scrubber(manager, ScrubFile(tmp_path), Event(), 1 << 20, 24.0)
        again.load()
        assert [damage.start for damage in manager.scrubbed.damage()] == [len(MESSAGE)]


def test_it_stops_in_the_middle_of_a_segment_and_starts_with_that_again(tmp_path: Path) -> None:
    """At one byte a second it would take minutes."""
    with with_segments(tmp_path) as manager:
        stopping = Event()
        scrubber = Scrubber(manager, ScrubFile(tmp_path), stopping, 1, 24.0)
        gevent.spawn_later(0.05, stopping.set)
        run_until(scrubber, Event(), stopping.is_set)
        assert manager.scrubbed.after is None
        assert manager.scrubbed.scrubbed_bytes == 0


def test_it_compares_what_is_good_once_it_can(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was not compared is the same as before, as far as anybody knows."""
    with with_segments(tmp_path) as manager:
        stopping, compared = Event(), []
        first, second, third = (SegmentKey("views", 0, number * len(MESSAGE)) for number in range(3))
        differing = DifferingRange(second, second.start_offset, third.start_offset, "a:9c2e")
        manager.scrubbed.note_compared(third, DifferingRange(third, 0, 1, "a:9c2e"))
        flip(manager.log_dir / "views-0" / f"{0:020}.kafka", 50)

        def compare(segment: ClosedSegment, _spend: Callable[[int], None]) -> DifferingRange | None:
            compared.append(segment.key)
            if segment.key == third:
                raise NotComparedError("nobody answers")
            return differing

        scrubber = Scrubber(manager, ScrubFile(tmp_path), stopping, 1 << 20, 24.0)
        scrubber.compare = compare
        looks = iter([False, True])
        scrubber.can_compare = lambda: next(looks)
        run_until(scrubber, stopping, lambda: manager.scrubbed.finished_s is not None)
        assert next(looks, None) is None
        assert compared == [second, third]
        assert [each.segment for each in manager.scrubbed.differing()] == [second, third]
        assert f"differs: {differing}" in caplog.text
        assert list(scrub_samples(manager.scrubbed, "3")[DIFFERING].values()) == [2]
        assert first in {each.segment for each in manager.scrubbed.damage()}


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    with with_segments(tmp_path) as manager:
        stopping = Event()
        gevent.spawn(stopping.set)
        Scrubber(manager, ScrubFile(tmp_path), stopping, 0, 24.0).run()
        assert manager.scrubbed.scrubbed_bytes == 0
        assert not (tmp_path / "scrub").exists()
