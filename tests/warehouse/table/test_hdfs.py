"""What we add to the client of HDFS: an end to every call, and errors where it would say that nothing is there."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow.fs import FileSelector

from kafka2011.warehouse.table import hdfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_a_call_without_an_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says which path it was about."""
    monkeypatch.setattr(hdfs, "PATIENCE_S", 0.02)
    answered = threading.Event()
    with pytest.raises(TimeoutError, match="hdfs://nn/w"):
        hdfs.bounded(answered.wait, "hdfs://nn/w")
    answered.set()
    assert hdfs.bounded(answered.wait, "hdfs://nn/w")


def test_what_a_call_raises_is_raised() -> None:
    """By the thread that waits for it."""
    with pytest.raises(FileNotFoundError):
        hdfs.bounded(Path("/missing/file").read_bytes, "/missing/file")


def test_an_hdfs_that_is_away_has_files_all_the_same() -> None:
    """A listing, a look and a read fail: nobody may conclude that nothing is there."""
    file_system = hdfs.hdfs("namenode:1")
    filesystem: Any = file_system.handler.fs

    def refuse(*_: object) -> Iterator[object]:
        raise RuntimeError("Connection refused\nand where")

    filesystem.client = hdfs.Bounded(SimpleNamespace(get_file_info=refuse, list_status=refuse))
    try:
        asked: list[Callable[[], object]] = [
            lambda: file_system.get_file_info(FileSelector("/w", allow_not_found=True, recursive=True)),
            lambda: file_system.open_input_stream("/w/file"),
            lambda: filesystem.find("/w"),
        ]
        for ask in asked:
            with pytest.raises(OSError, match=r"Connection refused$") as refused:
                ask()
            assert not isinstance(refused.value, FileNotFoundError)
    finally:
        type(filesystem).clear_instance_cache()


def test_a_directory_may_be_made_while_it_is_listed() -> None:
    """PyArrow asks whether it is there, whether anything is, and takes what came between for a file."""
    file_system = hdfs.hdfs("namenode:1")
    filesystem: Any = file_system.handler.fs
    listings: list[list[SimpleNamespace]] = []

    def list_status(path: str, recursive: bool) -> list[SimpleNamespace]:
        assert (path, recursive) == ("/w", True)
        if not listings:
            raise FileNotFoundError(path)
        return listings.pop()

    def get_file_info(path: str) -> SimpleNamespace:
        listings.append([])
        return status(path, isdir=len(listings) > 1)

    def status(path: str, *, isdir: bool) -> SimpleNamespace:
        return SimpleNamespace(
            path=path,
            length=3,
            isdir=isdir,
            permission=0o755,
            owner="o",
            group="g",
            modification_time=2000,
            access_time=0,
        )

    filesystem.client = hdfs.Bounded(SimpleNamespace(get_file_info=get_file_info, list_status=list_status))
    missing_is_none = FileSelector("/w", allow_not_found=True, recursive=True)
    try:
        assert file_system.get_file_info(missing_is_none) == []
        with pytest.raises(FileNotFoundError):
            file_system.get_file_info(FileSelector("/w", recursive=True))
        listings.append([status("/w/d", isdir=True), status("/w/d/f", isdir=False)])
        found = file_system.get_file_info(missing_is_none)
        assert [(each.path, each.is_file, each.size) for each in found] == [("/w/d", False, None), ("/w/d/f", True, 3)]
        listings.append([status("/w", isdir=False)])
        with pytest.raises(NotADirectoryError):
            file_system.get_file_info(missing_is_none)
    finally:
        type(filesystem).clear_instance_cache()


def test_executors_are_sent_the_place() -> None:
    """And find out for themselves how to reach it."""
    assert pickle.loads(pickle.dumps(hdfs.hdfs("namenode:1"))) == hdfs.hdfs("namenode:1")


def test_a_process_that_has_used_hdfs_may_fork() -> None:
    """Fsspec drops its file systems in the child, and the client below would wait there for its threads for ever."""
    program = (
        "import os\n"
        "from kafka2011.warehouse.table import hdfs\n"
        "file_system = hdfs.hdfs('127.0.0.1:1')\n"
        "child = os.fork()\n"
        "if child: raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "del file_system\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0


def test_a_copy_is_written_to_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library writes it to another one, which HDFS refuses."""
    filesystem: Any = hdfs.hdfs("namenode:1").handler.fs
    copy = tmp_path / "copy"
    opened = {("/w/file", "rb"): BytesIO(b"rows"), ("/w/copy", "wb"): copy.open("wb")}
    monkeypatch.setattr(filesystem, "open", lambda path, mode: opened.pop((path, mode)), raising=False)
    try:
        filesystem.cp_file("/w/file", "/w/copy")
        assert copy.read_bytes() == b"rows"
    finally:
        type(filesystem).clear_instance_cache()


class Written(BytesIO):
    """A file that notes what it holds when it is closed."""

    def __init__(self, files: list[bytes]) -> None:
        super().__init__()
        self._files = files

    def close(self) -> None:
        if not self.closed:
            self._files.append(self.getvalue())
        super().close()


def test_a_written_file_is_closed() -> None:
    """By PyArrow, and at the end of `with`: HDFS shows what was written only then."""
    file_system = hdfs.hdfs("namenode:1")
    filesystem: Any = file_system.handler.fs
    files: list[bytes] = []
    filesystem.client = hdfs.Bounded(SimpleNamespace(create=lambda _path, **_options: Written(files)))
    try:
        with file_system.open_output_stream("/w/file") as file:
            file.write(b"rows")
        with filesystem.open("/w/copy", "wb") as copy:
            copy.write(b"more")
        assert files == [b"rows", b"more"]
    finally:
        type(filesystem).clear_instance_cache()
