"""Every line is read once after rotations while the collector was down, as each program makes them."""

from __future__ import annotations

import gzip
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafka2011.collect.names import target_pattern
from tests.support.watched_reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Logs:
    """A directory of logs, in which every write is a minute after the one before."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._now_s = 1_764_500_000

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)
        self._now_s += 60
        os.utime(path, (self._now_s, self._now_s))

    def move(self, name: str, new: str) -> None:
        (self.directory / name).rename(self.directory / new)

    def pack(self, name: str) -> None:
        """Compress as gzip does: the time stays."""
        path = self.directory / name
        status = path.stat()
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        os.utime(path.with_name(path.name + ".gz"), ns=(status.st_atime_ns, status.st_mtime_ns))
        path.unlink()

    def copy_and_truncate(self, name: str, new: str) -> None:
        shutil.copy2(self.directory / name, self.directory / new)
        os.truncate(self.directory / name, 0)

    def link(self, name: str, target: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(self.directory / target)


class Scheme(NamedTuple):
    """The path that is collected, and what happens before the collector goes down and while it is down."""

    path: str
    before: Callable[[Logs], None]
    while_down: Callable[[Logs], None]


def numbered(name: str, *packed: str) -> Callable[[Logs], None]:
    """Rotate twice by numbers, as logrotate, log4j, Docker and Python's RotatingFileHandler do."""

    def rotate(logs: Logs) -> None:
        logs.write(name, "two\n")
        logs.move(name, f"{name}.1")
        logs.write(name, "three\n")
        logs.move(f"{name}.1", f"{name}.2")
        logs.move(name, f"{name}.1")
        logs.write(name, "four\n")
        for each in packed:
            logs.pack(each)

    return rotate


def renamed(name: str, first: str, second: str, *packed: str) -> Callable[[Logs], None]:
    """Rotate twice, to names that stay."""

    def rotate(logs: Logs) -> None:
        logs.write(name, "two\n")
        logs.move(name, first)
        for each in packed:
            logs.pack(each)
        logs.write(name, "three\n")
        logs.move(name, second)
        logs.write(name, "four\n")

    return rotate


def copied(logs: Logs) -> None:
    """Rotate once as logrotate with `copytruncate` does."""
    logs.write("app.log", "two\nthree\n")
    logs.copy_and_truncate("app.log", "app.log.1")
    logs.write("app.log", "four\n")


POD = "pods/shop_web-0_5d/web"
ROTATED_AT = ("20261129-120000", "20261130-120000")


def pod(logs: Logs) -> None:
    logs.write(f"{POD}/0.log", "one\n")
    logs.link("containers/web.log", f"{POD}/0.log")


def container_restarts(logs: Logs) -> None:
    """Start the container two more times; the link follows."""
    logs.write(f"{POD}/0.log", "two\n")
    logs.write(f"{POD}/1.log", "three\n")
    logs.write(f"{POD}/2.log", "four\n")
    logs.link("containers/web.log", f"{POD}/2.log")


def container_restarts_and_rotates(logs: Logs) -> None:
    logs.write(f"{POD}/0.log", "two\n")
    logs.write(f"{POD}/1.log", "three\n")
    logs.move(f"{POD}/1.log", f"{POD}/1.log.20261130-120000")
    logs.write(f"{POD}/1.log", "")
    logs.write(f"{POD}/2.log", "four\n")
    logs.link("containers/web.log", f"{POD}/2.log")


def first_dated(logs: Logs) -> None:
    logs.write("app-20261128.log", "one\n")
    logs.link("app.log", "app-20261128.log")


def cronolog(logs: Logs) -> None:
    """Begin two more dated files, as cronolog and rotatelogs do with a link to the newest."""
    logs.write("app-20261128.log", "two\n")
    logs.write("app-20261129.log", "three\n")
    logs.write("app-20261201.log", "four\n")
    logs.link("app.log", "app-20261201.log")


def cronolog_and_packed(logs: Logs) -> None:
    cronolog(logs)
    logs.pack("app-20261128.log")
    logs.pack("app-20261129.log")


GLOG = "web.host1.app.log.INFO"


def first_of_glog(logs: Logs) -> None:
    logs.write(f"{GLOG}.20261128-120000.4711", "one\n")
    logs.link("web.INFO", f"{GLOG}.20261128-120000.4711")


def glog(logs: Logs) -> None:
    """Start the program two more times; each makes files of its own."""
    logs.write(f"{GLOG}.20261128-120000.4711", "two\n")
    logs.write(f"{GLOG}.20261129-120000.99", "three\n")
    logs.write(f"{GLOG}.20261130-120000.12345", "four\n")
    logs.link("web.INFO", f"{GLOG}.20261130-120000.12345")


def first_line(path: str) -> Callable[[Logs], None]:
    return lambda logs: logs.write(path, "one\n")


SCHEMES = {
    "numbers": Scheme("app.log", first_line("app.log"), numbered("app.log")),
    "numbers, delaycompress": Scheme("app.log", first_line("app.log"), numbered("app.log", "app.log.2")),
    "dates": Scheme("app.log", first_line("app.log"), renamed("app.log", "app.log.2026-11-29", "app.log.2026-11-30")),
    "dates inside, compressed": Scheme(
        "app.log",
        first_line("app.log"),
        renamed("app.log", "app-2026-11-29.0.log", "app-2026-11-30.0.log", "app-2026-11-29.0.log"),
    ),
    "copytruncate": Scheme("app.log", first_line("app.log"), copied),
    "Docker": Scheme("0a1b-json.log", first_line("0a1b-json.log"), numbered("0a1b-json.log")),
    "Kubernetes, a rotation": Scheme(
        "containers/web.log",
        pod,
        renamed(f"{POD}/0.log", *(f"{POD}/0.log.{time}" for time in ROTATED_AT), f"{POD}/0.log.{ROTATED_AT[0]}"),
    ),
    "Kubernetes, a restart": Scheme("containers/web.log", pod, container_restarts),
    "Kubernetes, both": Scheme("containers/web.log", pod, container_restarts_and_rotates),
    "cronolog": Scheme("app.log", first_dated, cronolog),
    "cronolog, compressed": Scheme("app.log", first_dated, cronolog_and_packed),
    "multilog": Scheme(
        "current",
        first_line("current"),
        renamed("current", "@400000006927b1c01df1c9d4.s", "@400000006927b1fc1df1c9d4.u"),
    ),
    "glog": Scheme("web.INFO", first_of_glog, glog),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_every_line_is_read_once_after_rotations_while_the_collector_was_down(name: str, tmp_path: Path) -> None:
    """The lines come in the order in which they were written, and the next start reads none again."""
    scheme, logs = SCHEMES[name], Logs(tmp_path / "logs")
    scheme.before(logs)
    reader = Reader(logs.directory, scheme.path)
    assert reader.read() == [b"one"]
    reader.die()
    scheme.while_down(logs)
    assert reader.read() == [b"two", b"three", b"four"]
    reader.die()
    assert reader.read() == []
    assert reader.counts.all_is_well
    reader.close()


def test_files_with_other_names_are_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A newer file that begins like the link's target is not read, and a warning has its size; older ones have none."""
    logs = Logs(tmp_path / "logs")
    logs.write("web.host1.app.log.WARNING.20261127-120000.4711", "old\n")
    first_of_glog(logs)
    reader = Reader(logs.directory, "web.INFO")
    assert reader.read() == [b"one"]
    reader.die()
    logs.write("web.host1.app.log.ERROR.20261129-120000.99", "an error\n")
    glog(logs)
    assert reader.read() == [b"two", b"three", b"four"]
    reader.settle()
    assert caplog.text.count("is not read: 9 bytes") == 1
    assert "log.ERROR.20261129-120000.99 was written after what was last read of" in caplog.text
    assert "WARNING.20261127" not in caplog.text
    reader.close()


def test_files_of_another_instance_are_not_read(tmp_path: Path) -> None:
    """Numbers before the first one that changes belong to the name."""
    logs = Logs(tmp_path / "logs")
    logs.write("worker-1-20261128.log", "one\n")
    logs.link("worker-1.log", "worker-1-20261128.log")
    reader = Reader(logs.directory, "worker-1.log")
    assert reader.read() == [b"one"]
    reader.die()
    logs.write("worker-2-20261129.log", "of another\n")
    logs.write("worker-1-20261129.log", "two\n")
    logs.write("worker-1-20261130.log", "three\n")
    logs.link("worker-1.log", "worker-1-20261130.log")
    assert reader.read() == [b"two", b"three"]
    reader.close()


@pytest.mark.parametrize(
    ("former", "current", "fits", "does_not_fit"),
    [
        ("a-9.log", "a-11.log", "a-10.log", "b-10.log"),
        ("a.20261130.log", "a.20261202.log", "a.20261201.log", "a.x.log"),
        ("0.log", "2.log", "1.log", "1.log.1"),
    ],
)
def test_numbers_vary_from_the_first_that_differs(former: str, current: str, fits: str, does_not_fit: str) -> None:
    """A number that begins alike varies as a whole."""
    pattern = target_pattern(former, current)
    assert pattern is not None
    assert pattern.fullmatch(fits)
    assert not pattern.fullmatch(does_not_fit)


@pytest.mark.parametrize(("former", "current"), [("a.log", "b.log"), ("a.log", "a.log"), ("a-1.log", "a-1.txt")])
def test_names_that_differ_in_letters_have_no_common_pattern(former: str, current: str) -> None:
    """Then nothing is guessed."""
    assert target_pattern(former, current) is None
