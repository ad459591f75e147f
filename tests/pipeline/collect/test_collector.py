"""The whole collector, with a producer in memory."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from kafka2011.errors import BrokerConnectionError
from kafka2011.pipeline.collect.collector import Collector
from kafka2011.pipeline.collect.counts import CollectCounts
from kafka2011.pipeline.collect.files import Files
from kafka2011.pipeline.collect.inputs import Inputs
from kafka2011.pipeline.collect.lines import LineCutter
from kafka2011.pipeline.collect.positions import Positions
from kafka2011.pipeline.collect.spool import MIN_SPOOL_BYTES, Spool
from kafka2011.pipeline.delivery import Delivery, DeliveryError
from tests.support.waiting import eventually
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Collecting:
    """A collector over the files of a directory, and what it published."""

    def __init__(self, directory: Path, *names: str, follow: bool = False, stdin: int | None = None) -> None:
        self.counts = CollectCounts()
        self.positions = Positions(directory / "state", "views")
        self.stop = threading.Event()
        self.arrived: list[bytes] = []
        self.is_away = False
        self.errors: list[Exception] = []
        wake = threading.Event()
        spool = inputs = None
        if stdin is not None:
            spool = Spool(
                directory / "spool",
                "views",
                MIN_SPOOL_BYTES,
                self.positions.spool_offset,
                self.counts,
                SYSTEM_CLOCK,
                on_append=wake.set,
            )
            inputs = Inputs(spool, self.counts, self.new_cutter, stdin=stdin)
        self.collector = Collector(
            Files(
                [str(directory / name) for name in names],
                self.positions,
                self.counts,
                self.new_cutter,
                SYSTEM_CLOCK,
                follow=follow,
            ),
            self.positions,
            Delivery(self.publish, lambda: None, self.counts, SYSTEM_CLOCK, tries_again=follow),
            self.counts,
            SYSTEM_CLOCK,
            spool=spool,
            inputs=inputs,
            stop=self.stop,
            wake=wake,
        )

    @staticmethod
    def new_cutter() -> LineCutter:
        return LineCutter(1000)

    def publish(self, lines: list[bytes]) -> Future[Any]:
        future: Future[Any] = Future()
        if self.is_away:
            future.set_exception(BrokerConnectionError("away"))
        else:
            self.arrived += lines
            future.set_result(None)
        return future

    def run(self) -> None:
        try:
            self.collector.run(5)
        except Exception as error:  # noqa: BLE001  # the test looks at it
            self.errors.append(error)
        finally:
            self.positions.close()

    def __enter__(self) -> Collecting:
        self._thread = threading.Thread(target=self.run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


def test_files_to_their_end(tmp_path: Path) -> None:
    """It ends when all is confirmed, and the next one finds nothing to do."""
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").write_bytes(b"three\n")
    for expected in ([b"one", b"three", b"two"], []):
        collecting = Collecting(tmp_path, "a", "b")
        collecting.run()
        assert sorted(collecting.arrived) == expected
        assert not collecting.errors


def test_a_rotated_file_goes_first(tmp_path: Path) -> None:
    """A file of many reads is read to its end before the one that took its name, also after a restart."""
    log = tmp_path / "a"
    log.write_bytes(b"first\n")
    Collecting(tmp_path, "a").run()
    old, new = ([b"%s %d" % (name, number) for number in range(100_000)] for name in (b"old", b"new"))
    with log.open("ab") as file:
        file.write(b"\n".join(old) + b"\n")
    log.rename(tmp_path / "a.1")
    log.write_bytes(b"\n".join(new) + b"\n")
    collecting = Collecting(tmp_path, "a")
    collecting.run()
    assert collecting.arrived == old + new


def test_it_follows_until_it_is_stopped(tmp_path: Path) -> None:
    """New lines arrive as they are written, while the cluster is away nothing is lost, and the end is saved."""
    log = tmp_path / "a"
    log.write_bytes(b"one\n")
    with Collecting(tmp_path, "a", follow=True) as collecting:
        eventually(lambda: collecting.arrived == [b"one"])
        collecting.is_away = True
        with log.open("ab") as file:
            file.write(b"two\n")
        eventually(lambda: collecting.counts.lines_resent > 0)
        collecting.is_away = False
        eventually(lambda: collecting.arrived == [b"one", b"two"])
    again = Collecting(tmp_path, "a")
    again.run()
    assert not again.arrived


def test_what_is_not_confirmed_fails_and_is_kept(tmp_path: Path) -> None:
    """Without --follow nothing is tried for ever; the next run sends what this one could not."""
    (tmp_path / "a").write_bytes(b"one\n")
    collecting = Collecting(tmp_path, "a")
    collecting.is_away = True
    collecting.run()
    [error] = collecting.errors
    assert isinstance(error, DeliveryError)
    again = Collecting(tmp_path, "a")
    again.run()
    assert again.arrived == [b"one"]


def test_what_was_spooled_is_sent_first(tmp_path: Path) -> None:
    """Standard input that came while the cluster was away is on disk, and goes before what comes now."""
    for text in (b"one\ntwo\n", b"three\n"):
        read, write = os.pipe()
        os.write(write, text)
        os.close(write)
        collecting = Collecting(tmp_path, stdin=read)
        collecting.is_away = text == b"one\ntwo\n"
        collecting.run()
        os.close(read)
        assert len(collecting.errors) == collecting.is_away
    assert collecting.arrived == [b"one", b"two", b"three"]


def test_positions_that_cannot_be_saved_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on, counts, and says once that more may come again."""

    def fail() -> bool:
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_bytes(b"one\n")
    collecting = Collecting(tmp_path, "a")
    monkeypatch.setattr(collecting.positions, "save", fail)
    collecting.run()
    assert collecting.arrived == [b"one"]
    assert collecting.counts.failed_saves >= 1
    assert caplog.text.count("so more may come again: No space left on device") == 1
