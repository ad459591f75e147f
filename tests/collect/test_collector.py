"""The whole collector, with a producer in memory."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from kafka2011.collect.collector import POLL_S, Collector
from kafka2011.collect.counts import CollectCounts
from kafka2011.collect.delivery import Delivery, DeliveryError
from kafka2011.collect.line_inputs import LineInputs
from kafka2011.collect.lines import LineCutter
from kafka2011.collect.positions import Positions
from kafka2011.collect.spool import MIN_SPOOL_BYTES, Spool, SpoolSettings
from kafka2011.collect.watched_files import WatchedFiles
from kafka2011.errors import BrokerConnectionError
from tests.support.waiting import eventually
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


class Collecting:
    """A collector over the files of a directory, and what it published."""

    def __init__(
        self,
        directory: Path,
        *names: str,
        follow: bool = False,
        stdin: int | None = None,
        before_save: Callable[[], object] = lambda: None,
    ) -> None:
        self.counts = CollectCounts()
        self.positions = Positions(directory / "state", "views")
        self.stop = threading.Event()
        self.arrived: list[bytes] = []
        self.is_away = False
        self.errors: list[Exception] = []
        wake = threading.Event()
        inputs = None
        if stdin is not None:
            spool = Spool(
                SpoolSettings(directory / "spool", "views", MIN_SPOOL_BYTES),
                self.positions.spool_offset,
                self.counts,
                SYSTEM_CLOCK,
                on_append=wake.set,
            )
            inputs = LineInputs(spool, self.counts, self.new_cutter, stdin=stdin)
        self.collector = Collector(
            WatchedFiles(
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
            inputs=inputs,
            before_save=before_save,
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

    def fail(*, whole: bool = False) -> bool:
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_bytes(b"one\n")
    collecting = Collecting(tmp_path, "a")
    monkeypatch.setattr(collecting.positions, "save", fail)
    collecting.run()
    assert collecting.arrived == [b"one"]
    assert collecting.counts.failed_saves >= 1
    assert caplog.text.count("so more may be sent again: No space left on device") == 1


class Held:
    """A cluster that confirms only when it is told to."""

    def __init__(self, collecting: Collecting, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[list[bytes], Future[Any]]] = []
        monkeypatch.setattr(collecting.collector._delivery, "publish", self.publish)

    def publish(self, lines: list[bytes]) -> Future[Any]:
        future: Future[Any] = Future()
        self.sent.append((lines, future))
        return future

    def confirm(self) -> None:
        self.sent.pop(0)[1].set_result(None)


def test_all_have_their_turn_while_one_has_a_backlog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for one list at a time, a new line of another file, or of the spool, comes with the next ones."""
    monkeypatch.setattr("kafka2011.collect.delivery.WINDOW_LINES", 1)
    (tmp_path / "a").write_bytes((b"x" * 99 + b"\n") * 100_000)
    (tmp_path / "b").write_bytes(b"")
    read, write = os.pipe()
    collecting = Collecting(tmp_path, "a", "b", follow=True, stdin=read)
    held = Held(collecting, monkeypatch)
    with collecting:
        for _ in range(3):
            eventually(lambda: held.sent)
            held.confirm()
        with (tmp_path / "b").open("ab") as file:
            file.write(b"of another file\n")
        os.write(write, b"of the spool\n")
        waiting = {b"of another file", b"of the spool"}
        for _ in range(12):  # those of a quarter of a second, in which nobody looks, among them
            eventually(lambda: held.sent)
            waiting -= set(held.sent[0][0])
            if not waiting:
                break
            time.sleep(POLL_S / 6)
            held.confirm()
        assert not waiting
        os.close(write)
        collecting.stop.set()
        while collecting._thread.is_alive():
            if held.sent:
                held.confirm()
    os.close(read)


def test_the_first_confirmation_is_saved_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is killed again and again gets on: the next one begins after what was confirmed, though no second passed."""
    monkeypatch.setattr("kafka2011.collect.delivery.WINDOW_LINES", 1)
    monkeypatch.setattr("kafka2011.collect.collector.SAVE_S", 1000)
    (tmp_path / "a").write_bytes((b"x" * 99 + b"\n") * 10_000)
    collecting = Collecting(tmp_path, "a", follow=True)
    held = Held(collecting, monkeypatch)

    def saved() -> int:
        files = json.loads(collecting.positions.path.read_text())["files"]
        return max((each["position"] for each in files), default=0)

    with collecting:
        eventually(lambda: held.sent)
        assert saved() == 0
        size = sum(len(line) + 1 for line in held.sent[0][0])
        held.confirm()
        eventually(lambda: saved() == size)
        collecting.stop.set()
        while collecting._thread.is_alive():
            if held.sent:
                held.confirm()


def test_positions_are_not_saved_before_what_must_come_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is not reported to the audit is sent again, by the next process, and reported then."""

    def fail() -> None:
        raise BrokerConnectionError("the audit is away")

    (tmp_path / "a").write_bytes(b"one\n")
    collecting = Collecting(tmp_path, "a", before_save=fail)
    collecting.run()
    assert collecting.arrived == [b"one"]
    assert "so more may be sent again: the audit is away" in caplog.text
    again = Collecting(tmp_path, "a")
    again.run()
    assert again.arrived == [b"one"]
