"""The label of a log.dir: a broker does not take an unmounted disk, or another broker's, for its own."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kafka2011.errors import LogError
from kafka2011.log.label import Label
from kafka2011.log.log_directory import CLEAN_SHUTDOWN_MARK
from kafka2011.log.log_manager import LogManager
from tests.support.disks import DiskWith

LABEL = ".kafka2011_broker_7"


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def start_and_stop(log_dir: Path, brokerid: int = 7, *, is_required: bool = False) -> list[str]:
    """Open and close the logs of a broker; return the names of its logs."""
    with LogManager(log_dir, label=Label(brokerid, is_required=is_required)) as logs:
        return sorted(log.topic for log in logs.logs())


def test_a_new_log_dir_is_labelled_and_the_broker_says_that_it_is_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once: the next start finds the label, and no stray file."""
    with caplog.at_level(logging.WARNING):
        start_and_stop(tmp_path / "logs")
    assert [record.getMessage() for record in caplog.records] == [
        f"log.dir {tmp_path}/logs is new: broker 7 starts empty (if it should not, its disk may not be mounted)"
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        start_and_stop(tmp_path / "logs", is_required=True)
    assert caplog.records == []
    assert names_in(tmp_path / "logs") == [LABEL, CLEAN_SHUTDOWN_MARK]


def test_logs_without_a_label_are_taken_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those of Kafka 0.7, or of an earlier version of this one: the disk is there."""
    with LogManager(tmp_path) as logs:
        logs.get_or_create("t", 0)
    with caplog.at_level(logging.WARNING):
        assert start_and_stop(tmp_path, is_required=True) == ["t"]
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    assert LABEL in names_in(tmp_path)


def test_the_log_dir_of_another_broker_is_refused(tmp_path: Path) -> None:
    """Both are named, and nothing there has changed, so that its own broker recovers nothing."""
    start_and_stop(tmp_path, 3)
    before = names_in(tmp_path)
    with pytest.raises(LogError, match=rf"log.dir {tmp_path} is that of broker 3, and this is broker 7: .*_broker_3"):
        start_and_stop(tmp_path, 7)
    assert names_in(tmp_path) == before == [".kafka2011_broker_3", CLEAN_SHUTDOWN_MARK]
    start_and_stop(tmp_path, 3)


@pytest.mark.parametrize("exists", [False, True], ids=["missing", "empty"])
def test_an_unmounted_disk_is_noticed_where_a_label_is_required(tmp_path: Path, exists: bool) -> None:
    """And nothing is made in its place."""
    log_dir = tmp_path / "disk" / "logs"
    if exists:
        log_dir.mkdir(parents=True)
    with pytest.raises(LogError, match=rf"log.dir {log_dir} has neither .* log.dir.label.required=false once"):
        start_and_stop(log_dir, is_required=True)
    assert log_dir.exists() == exists
    assert not exists or names_in(log_dir) == []
    start_and_stop(log_dir)
    start_and_stop(log_dir, is_required=True)


def test_the_label_is_brought_to_disk(tmp_path: Path) -> None:
    """Before any log is made: without it, a power cut would leave an empty directory."""
    synced: list[tuple[Path, bool]] = []

    def note(fd: int) -> None:
        synced.append((Path(f"/proc/self/fd/{fd}").readlink(), (tmp_path / LABEL).exists()))

    with LogManager(tmp_path, disk=DiskWith(fsync=note), label=Label(7)):
        assert (tmp_path, True) in synced
