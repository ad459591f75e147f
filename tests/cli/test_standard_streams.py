"""Commands that are started without standard streams, without a home directory, or are interrupted at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafka2011.cli.standard_streams import watched_reader
from kafka2011.cli.state import state_directory
from kafka2011.errors import ConfigError
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.locations import location_of
from kafka2011.warehouse.table.s3_environment import check_environment
from tests.support.waiting import eventually

TIMEOUT_S = 60

SETTINGS = "settings broker"
BROKER = (
    "broker --override brokerid=1 --override enable.zookeeper=false --override port=0 --override log.dir={directory}"
)


def run(shell: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell command in which `kafka2011` is this one."""
    text = shell.replace("kafka2011 ", f"{sys.executable} -m kafka2011 ").format(directory=directory)
    return subprocess.run(
        ["/bin/sh", "-c", text],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("shell", "status", "error"),
    [
        (f"kafka2011 {SETTINGS} <&- >/dev/null", 0, ""),
        (f"kafka2011 {SETTINGS} >&-", 1, "kafka2011: error: standard output: it is closed\n"),
        (f"kafka2011 {SETTINGS} >/dev/full", 1, "kafka2011: error: standard output: No space left on device\n"),
        (f"kafka2011 {SETTINGS} 2>&- >/dev/null", 0, ""),
        (f"kafka2011 {SETTINGS} <&- >&- 2>&-", 1, ""),
        ("kafka2011 --version >&-", 1, "kafka2011: error: standard output: it is closed\n"),
        ("kafka2011 no-such 2>&- >&-", 2, ""),
        ("kafka2011 dump-log {directory}/missing >&-", 2, "Path '{directory}/missing' does not exist"),
    ],
)
def test_a_command_runs_or_names_the_stream_that_it_lacks(shell: str, status: int, error: str, tmp_path: Path) -> None:
    """Only a command that uses a stream fails without it."""
    done = run(shell, tmp_path)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert error.format(directory=tmp_path) in done.stderr
    if not error:
        assert done.stderr == ""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full"])
def test_a_broker_runs_without_standard_streams(closed: str, tmp_path: Path) -> None:
    """It serves until it is stopped, and its files and sockets get other numbers than the streams have."""
    shell = f"exec {sys.executable} -m kafka2011 {BROKER.format(directory=tmp_path)} {closed}"
    with subprocess.Popen(["/bin/sh", "-c", shell], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as broker:
        try:
            descriptors = Path(f"/proc/{broker.pid}/fd")
            eventually(
                lambda: any(_target(file).startswith("socket:") for file in descriptors.iterdir()),
                what="a socket of the broker",
            )
            assert all(_target(descriptors / number).startswith("/dev/") for number in "01")
        finally:
            broker.terminate()
        assert broker.wait(TIMEOUT_S) == 0


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""


def test_ctrl_c_while_modules_are_imported_prints_no_traceback(tmp_path: Path) -> None:
    """The process ends by the signal, as its shell expects."""
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # shells ignore it for commands in the background
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'kafka2011.cli.app': os.kill(os.getpid(), signal.SIGINT)\n"
        "from kafka2011.__main__ import main\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sys.exit(main(['settings', 'broker']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand for a user id without an entry in passwd, and no HOME."""

    def no_home(text: str) -> str:
        return text

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", no_home)


def test_without_a_home_directory_the_place_of_state_must_be_named(
    homeless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says how to name it."""
    with pytest.raises(ConfigError, match=r"no home directory .* set XDG_STATE_HOME"):
        state_directory("cluster")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert state_directory("cluster") == Path("/state/kafka2011/cluster")


def test_a_warehouse_in_s3_needs_no_home_directory(homeless: None) -> None:
    """Keys in the environment suffice, as in a container with any user id."""
    keys = {"AWS_REGION": "x", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    check_environment("s3://bucket/warehouse", keys)
    with pytest.raises(WarehouseError, match="AWS_REGION and AWS_ACCESS_KEY_ID"):
        check_environment("s3://bucket/warehouse", {})


def test_a_warehouse_below_a_missing_home_directory_is_refused(homeless: None) -> None:
    """A tilde stands for nothing then."""
    with pytest.raises(WarehouseError, match=r"^~/warehouse cannot be a warehouse"):
        location_of("~/warehouse")


def test_a_reader_that_goes_is_noticed_without_a_write() -> None:
    """A pipe's last reader closes it while the writer does something else."""
    program = (
        "import os, sys, threading\n"
        "from kafka2011.cli.standard_streams import watched_reader\n"
        "gone = threading.Event()\n"
        "with watched_reader(gone.set):\n"
        "    os.write(1, b'x')\n"
        "    sys.exit(0 if gone.wait(30) else 1)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(TIMEOUT_S) == 0


def test_a_reader_that_stays_ends_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """The end of the watched block is no end of the reader."""
    gone: list[bool] = []
    with watched_reader(lambda: gone.append(True)):
        pass
    assert gone == []
