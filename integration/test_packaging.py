"""The wheel: what it holds, and that it runs where nothing but its own requirements is installed."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"kafka2011", "pyspark_kafka2011", "zk"}
TIMEOUT_S = 110

# Runs in the empty environment: a round trip over a broker of its own, then what was imported for it.
ROUND_TRIP = """
import os, re, subprocess, sys, time
from kafka2011 import EARLIEST, SimpleConsumer, SyncProducer
assert "site-packages" in sys.modules["kafka2011"].__file__
log_dir = sys.argv[1]
settings = ["brokerid=0", "log.dir=" + log_dir, "port=0", "enable.zookeeper=false", "log.flush.interval=1"]
command = [sys.executable, "-m", "kafka2011", "broker"]
for text in settings:
    command += ["--override", text]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
    try:
        port = int(re.search(r"is ready on .*:(\\d+)", broker.stdout.readline())[1])
        with SyncProducer("127.0.0.1", port) as producer:
            producer.send("views", [b"one", b"two"], partition=0)
        with SimpleConsumer("127.0.0.1", port) as consumer:
            [start] = consumer.get_offsets_before("views", 0, EARLIEST, 1)
            deadline = time.monotonic() + 30
            payloads = []
            while not payloads and time.monotonic() < deadline:  # nothing can be read before it is flushed
                payloads = [message.payload for message in consumer.fetch("views", 0, start, 1000)]
    finally:
        broker.terminate()
assert payloads == [b"one", b"two"], payloads
assert broker.returncode == 0, broker.returncode
assert os.path.exists(os.path.join(log_dir, ".kafka_cleanshutdown"))
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def run(*command: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command without what this process's environment says of Python and of settings."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "KAFKA2011_", "VIRTUAL"))}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept | environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def build(source: Path, **environ: str) -> Path:
    """Build the wheel as `make dist` does, from a copy in which nothing else lies about."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", *sorted(PACKAGES)):
        done = run("cp", "-r", ROOT / name, source, cwd=ROOT)
        assert done.returncode == 0, done.stderr
    for built in source.rglob("*.so"):
        built.unlink()
    for other in ("tests", "integration", "paper_benchmarks"):  # must not be taken for packages
        (source / other).mkdir()
        (source / other / "__init__.py").touch()
    done = run(sys.executable, "-m", "build", "--no-isolation", source, cwd=source, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = (source / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with what is here."""
    return build(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with a compiler that fails."""
    return build(tmp_path_factory.mktemp("pure-source"), CC="false")


@pytest.fixture(scope="module")
def empty_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel without extras into an environment of its own and give that one's Python."""
    directory = tmp_path_factory.mktemp("environment")
    done = run(sys.executable, "-m", "venv", directory, cwd=directory)
    assert done.returncode == 0, done.stderr
    python = directory / "bin" / "python"
    done = run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=directory)
    assert done.returncode == 0, done.stderr
    return python


def assert_holds(wheel: Path, extensions: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == PACKAGES
    held = {name for name in names if name.partition("/")[0] in PACKAGES}
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    lab = ROOT / "kafka2011" / "lab"
    folders = [ROOT / "kafka2011" / "ui" / "page", *(lab / name for name in ("pages", "recorded", "slow_motion"))]
    folders += (lab / "skeletons").iterdir()
    shown = [*(ROOT / "kafka2011").rglob("*.j2"), *(path for folder in folders for path in folder.iterdir())]
    expected = {path.relative_to(ROOT).as_posix() for path in [*modules, *shown]}
    assert held == expected | {f"{package}/py.typed" for package in PACKAGES} | extensions


def test_wheel_holds_exactly_the_packages(wheel: Path) -> None:
    """Every module of the packages is in it, with the C code and the marks for type checkers, and nothing else."""
    assert wheel.name.endswith(f"-cp311-abi3-linux_{platform.machine()}.whl")  # for this Python and later ones
    code = (
        "broker/requests/_receive",
        "broker/connections/_send",
        "broker/connections/_send_threads",
        "message/_runs",
        "events/_encode",
        "gateway/records/_records",
        "producer/_append",
        "warehouse/rows/_columns",
        "wire/_exchange",
    )
    assert_holds(wheel, {f"kafka2011/{name}.abi3.so" for name in code})


def test_a_wheel_without_c_code_is_for_every_machine(pure_wheel: Path, empty_environment: Path, tmp_path: Path) -> None:
    """Without a compiler the same wheel is made without C code, is called so, and works."""
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    assert_holds(pure_wheel, set())
    command = "import sys; sys.path.insert(0, sys.argv[1])"
    command += "; from kafka2011 import MessageSet; from kafka2011.message import runs"
    command += "; print(runs.__file__); print(runs.chosen.DESCRIPTION, *MessageSet([b'one']))"
    done = run(empty_environment, "-c", command, pure_wheel, cwd=tmp_path)
    file = f"{pure_wheel}/kafka2011/message/runs.py"
    assert done.stdout.splitlines() == [file, "messages in Python b'one'"], done.stderr


def test_the_source_holds_the_c_code(wheel: Path) -> None:
    """And what compiles it, so that a wheel can be made from it."""
    [path] = wheel.parent.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    code = [path.relative_to(ROOT).as_posix() for path in (ROOT / "kafka2011").rglob("*.[ch]")]
    assert len(code) >= 4
    assert names >= {"setup.py", "pyproject.toml", *code}


def test_wheel_says_what_it_is(wheel: Path) -> None:
    """Licence, readme, extras and the command stand in its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        [info] = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = BytesParser().parsebytes(archive.read(f"{info}/METADATA"))
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        assert "Apache License" in archive.read(f"{info}/licenses/LICENSE").decode()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert str(metadata.get_payload()).startswith("# kafka2011")
    assert set(metadata.get_all("Provides-Extra", [])) >= {"local", "spark", "warehouse", "bench", "test"}
    assert "kafka2011 = kafka2011.__main__:main" in entry_points
    required = {
        re.split(r"[^\w-]", line)[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line
    }
    assert required >= {"kazoo", "gevent", "crcmod", "click", "cramjam"}
    assert "pyspark" not in required


def test_runs_without_extras(empty_environment: Path, tmp_path: Path) -> None:
    """A broker runs without PySpark, and clients talk to it without importing gevent."""
    assert run(empty_environment, "-c", "import pyspark", cwd=tmp_path).returncode != 0
    done = run(empty_environment, "-c", ROUND_TRIP, tmp_path / "logs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert "kafka2011" in imported
    assert not imported & {"gevent", "pyspark", "kazoo"}
    assert "(messages in C, " in run(empty_environment, "-m", "kafka2011", "--version", cwd=tmp_path).stdout


def test_pip_adds_the_extra_that_is_named(empty_environment: Path, tmp_path: Path) -> None:
    """By the name of what is installed, which it need not look for elsewhere."""
    done = run(str(empty_environment), "-m", "kafka2011", "schemas", "list", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("fastavro is not installed: pip install 'kafka2011[pipeline]'\n")
    found = run(str(empty_environment), "-m", "pip", "install", "--no-index", "kafka2011[pipeline]", cwd=tmp_path)
    assert "satisfied: kafka2011[pipeline]" in found.stdout


def test_command_is_installed(empty_environment: Path, tmp_path: Path) -> None:
    """The command `kafka2011` and `python -m kafka2011` are the same."""
    direct = run(empty_environment.parent / "kafka2011", "--help", cwd=tmp_path)
    module = run(empty_environment, "-m", "kafka2011", "--help", cwd=tmp_path)
    assert direct.returncode == module.returncode == 0
    assert direct.stdout == module.stdout
