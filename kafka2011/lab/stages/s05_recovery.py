"""Stage 5: after a crash, the log ends with its last good message."""

from __future__ import annotations

import subprocess
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING

from kafka2011.lab import paper
from kafka2011.lab.bench import wait_until
from kafka2011.lab.errors import SkippedError, WrongError
from kafka2011.lab.requests import BARRIER, BARRIER_ANSWER, fetch, message, message_set, offsets, produce

if TYPE_CHECKING:
    from kafka2011.lab.bench import Bench, BrokerUnderTest

_END = -1
_SETS = 400
_PROVEN = 60
_START_S = 1.0
_DISK_BYTES = 256 * 1024
_SET_BYTES = 10_000
_PROBE_S = 10.0
_END_S = 3.0


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    with bench.broker() as broker:
        planted(bench, broker)
        torn_again(bench, broker)
    with bench.broker() as broker:
        killed(bench, broker)
    with bench.broker() as broker, bench.check("A full disk: what cannot be written is not proven", paper.RECOVERY):
        full_disk(broker)


def _damages() -> dict[str, tuple[str, bytes, bytes]]:
    """Return logs with what is in their only segment, and what should be left of it."""
    good = message_set(b"one", b"two")
    bad = _flipped(message(b"three"))
    damages = {
        "whole": ("A segment without damage stays as it is", good, good),
        "magic0": ("Messages with magic 0 stay", message(b"old", magic=0) * 2, message(b"old", magic=0) * 2),
        "packed": ("The payload of a compressed message is not opened", _compressed() + good, _compressed() + good),
        "head": ("3 bytes after the last message are cut", good + good[:3], good),
        "bit": ("A message with a wrong CRC is cut", good + bad, good),
        "middle": ("Everything after a wrong CRC is cut, also good messages", good + bad + good, good),
        "crc": (
            "A message whose stored CRC has changed is cut",
            good + message(b"x" * 20, magic=0)[:5] + bytes(24),
            good,
        ),
        "short": ("A length below 5 is cut", good + pack(">i", 4) + bytes(4), good),
        "negative": ("A negative length is cut", good + pack(">i", -20) + bytes(30), good),
        "large": ("A length beyond the end of the file is cut", good + pack(">i", 2**30) + bytes(30), good),
        "zeros": ("Zeros, as a power cut leaves them, are cut", good + bytes(64), good),
        "magic2": ("A message with magic 2 is cut", good + good[:4] + b"\x02" + good[5:13], good),
        "nothing": ("A segment without a good message becomes empty", bad + good, b""),
        "empty": ("An empty segment stays empty", b"", b""),
    }
    last = message(b"torn")
    for size in range(1, len(last)):
        title = f"A message of {len(last)} bytes, of which {size} were written, is cut"
        damages[f"torn{size}"] = (title, good + last[:size], good)
    return damages


def planted(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try damaged segments of all kinds, in one start."""
    damages = _damages()
    good, bad = message_set(b"one", b"two"), _flipped(message(b"three"))
    first = good + bad
    for topic, (_, before, after) in damages.items():
        broker.plant(f"{topic}-0", {0: before}, {0: after})
    broker.plant("two-0", {0: first, len(first): good + b"\0\0"}, {0: first, len(first): good})
    with bench.check("The program starts on damaged logs", paper.RECOVERY):
        broker.start()
    for topic, (title, _, after) in damages.items():
        with bench.check(title, paper.RECOVERY):
            broker.expect_files(f"{topic}-0", {0: after}, _START_S)
            broker.ask(offsets(topic, _END))
            broker.ask(fetch(topic, 0))
    with bench.check("Only the last segment is recovered", paper.SEGMENTS):
        broker.expect_files("two-0", {0: first, len(first): good})
        broker.ask(fetch("two", 0))
        broker.ask(offsets("two", _END))
    with bench.check("After recovery, the log goes on where it was cut", paper.APPEND):
        for topic in ("bit", "torn7", "nothing", "two"):
            broker.put(produce(topic, good))
            broker.ask(offsets(topic, _END))
        broker.expect_files("bit-0", {0: good * 2})
        broker.expect_files("nothing-0", {0: good})


def torn_again(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try a second crash, of a log that the program has written itself."""
    good = message_set(b"one", b"two")
    with bench.check("A second crash is recovered like the first", paper.RECOVERY):
        broker.kill()
        with (broker.data / "bit-0" / f"{0:020}.kafka").open("ab") as file:
            file.write(good[:20])
        broker.start()
        broker.expect_files("bit-0", {0: good * 2 + good[:13]}, _START_S)


def killed(bench: Bench, broker: BrokerUnderTest) -> None:
    """Try kill -9 in the middle of many produce requests."""
    sets = [message_set(b"%d" % number, bytes(number)) for number in range(_SETS)]
    log, sent = "k-0", b"".join(sets)
    with bench.check("kill -9 in the middle of many produce requests", paper.RECOVERY):
        broker.start()
        with broker.connect() as connection:
            for number, data in enumerate(sets):
                connection.send(produce("k", data) + BARRIER)
                if number == _PROVEN:
                    came = connection.read(len(BARRIER_ANSWER) * _PROVEN).data
                    if came != BARRIER_ANSWER * _PROVEN:
                        raise WrongError("Your program did not answer the barriers.", came=came)
                if number == _PROVEN * 2:
                    broker.kill()
                    break
        broker.start()
    with bench.check("What was proven before kill -9 is still there, and nothing else", paper.RECOVERY):
        proven = len(b"".join(sets[:_PROVEN]))
        path = broker.data / log / f"{0:020}.kafka"
        kept = path.read_bytes() if path.exists() else b""
        if len(kept) < proven or not sent.startswith(kept):
            what = f"{proven} bytes were proven by barriers. The file has {len(kept)} bytes after kill -9."
            raise WrongError(what, wanted=sent[: max(proven, len(kept))], came=kept)
        ends = [len(b"".join(sets[:count])) for count in range(len(sets))]
        ends += [end + len(message(b"%d" % number)) for number, end in enumerate(ends)]
        if not wait_until(lambda: path.stat().st_size in ends, _START_S):
            raise WrongError(f"The file ends in the middle of a message, at {path.stat().st_size}.", came=kept[-40:])


def full_disk(broker: BrokerUnderTest) -> None:
    """Try a file system of 256 KiB, in a namespace of its own. Raises SkippedError where there are none."""
    mount = f'mount -t tmpfs -o size={_DISK_BYTES} tmpfs "$1"'
    namespace = ("unshare", "--map-root-user", "--mount", "sh", "-c")
    probe = [*namespace, mount, "sh", str(broker.data)]
    try:
        subprocess.run(probe, capture_output=True, timeout=_PROBE_S, check=True)  # noqa: S603  # our own words
    except (OSError, subprocess.SubprocessError) as error:
        raise SkippedError("this machine has no user namespaces that can mount a tmpfs") from error
    # The program sees the small file system in the place of its data directory; nobody else does.
    broker.start([*namespace, f'{mount} && shift && exec "$@"', "sh", str(broker.data)])
    sent = proven = b""
    with broker.connect() as connection:
        for number in range(_DISK_BYTES // _SET_BYTES + 2):
            data = message(b"%05d" % number + bytes(_SET_BYTES - 15))
            connection.send(produce("full", data) + BARRIER)
            sent += data
            if connection.read(len(BARRIER_ANSWER)).data != BARRIER_ANSWER:
                break
            proven = sent
    if len(proven) > _DISK_BYTES:
        what = f"The disk has {_DISK_BYTES} bytes. Your program has answered barriers for {len(proven)} bytes."
        raise WrongError(what)
    path = Path(f"/proc/{broker.run.process.pid}/root{broker.data}/full-0/{0:020}.kafka")
    try:
        kept = path.read_bytes()
    except OSError:  # the program has ended, and its small disk with it
        kept = b""
    # It may also end, though not at once: then the next start would cut the file.
    if kept != proven and not wait_until(lambda: not broker.run.running, _END_S):
        raise WrongError(f"{len(proven)} bytes were proven. The file has {len(kept)} bytes: cut it back.")


def _flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _compressed() -> bytes:
    plain = message(b"not gzip at all")
    return plain[:5] + b"\x01" + plain[6:]
