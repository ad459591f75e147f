"""Archives of classes for the JVMs that tests start, which then need about half the processor time to start.

    python -m integration.jvm_archives

makes them in build/jvm, unless they are there. A JVM with an archive takes the classes that it loads from it, parsed
and verified (class data sharing). Without one it works as well, and starts more slowly. `make integration` makes them;
whoever runs one file of tests need not.

Measured: a server of ZooKeeper takes 0.40 s of processor time to start instead of 0.62, and a session of Spark with its
first queries 4.8 s instead of 8.9.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from tests.support.waiting import eventually
from zk.connecting import connect
from zk.errors import LocalZooKeeperError
from zk.local_zookeeper import JVM_OPTIONS_VARIABLE, LocalZooKeeper, find_jars, find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

ROOT: Final = Path(__file__).parents[1]
DIRECTORY: Final = ROOT / "build" / "jvm"
SPARK_JVM_VARIABLE: Final = "SPARK_SUBMIT_OPTS"
"""The environment variable with options for the JVM of every Spark that is started from Python."""
LIGHT_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM starts sooner with them: one that lives for a minute does not earn the better compiler's work back."""
_QUIET: Final = "-Xlog:disable"
"""An archive that does not fit, say because a test has other jars, is not worth a warning: it is not used."""
_SPARK_LOGGING: Final = ROOT / "integration" / "spark" / "log4j2.properties"
_TRAINING: Final = ROOT / "integration" / "spark" / "programs" / "common_work.py"
_TIMEOUT_S: Final = 300.0


def use_archives(environ: MutableMapping[str, str]) -> None:
    """Add to an environment what makes JVMs use the archives that are there."""
    with contextlib.suppress(LocalZooKeeperError):  # without Java or jars, the tests that need them say so
        for variable, archive in ((JVM_OPTIONS_VARIABLE, _zookeeper_archive()), (SPARK_JVM_VARIABLE, _spark_archive())):
            if archive.exists():
                environ[variable] = f"{environ.get(variable, '')} {_using(archive)}".lstrip()


def spark_options() -> str:
    """Return the options with which JVMs of Spark start soonest, for those that see no environment of tests."""
    archive = _spark_archive()
    return f"{LIGHT_JVM} {_using(archive)}" if archive.exists() else LIGHT_JVM


def make_archives() -> None:
    """Make each archive unless it is there, and remove those of other versions of Java, ZooKeeper and Spark."""
    wanted: dict[Path, Callable[[str], None]] = {_zookeeper_archive(): _train_zookeeper, _spark_archive(): _train_spark}
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for old in set(DIRECTORY.glob("*.jsa")) - wanted.keys():
        old.unlink()
    for archive, train in wanted.items():
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=DIRECTORY) as directory:
                made = Path(directory) / archive.name
                train(f"-XX:ArchiveClassesAtExit={made} {_QUIET}")
                made.replace(archive)


def _using(archive: Path) -> str:
    return f"-XX:SharedArchiveFile={archive} {_QUIET}"


def _zookeeper_archive() -> Path:
    return _archive("zookeeper", find_jars().split(os.pathsep))


def _spark_archive() -> Path:
    spec = importlib.util.find_spec("pyspark")  # importing it would cost each run half a second
    found = () if spec is None else spec.submodule_search_locations or ()
    return _archive("spark", sorted(str(jar) for place in found for jar in Path(place, "jars").glob("*.jar")))


def _archive(name: str, jars: list[str]) -> Path:
    """Return where an archive belongs; the JVM uses it only with the very files that it was made from."""
    java = Path(find_java()).resolve()
    files = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in (java, *map(Path, jars))]
    return DIRECTORY / f"{name}-{hashlib.sha256(repr(files).encode()).hexdigest()[:16]}.jsa"


def _train_zookeeper(options: str) -> None:
    """Run a server with these options through what most tests do with it."""
    os.environ[JVM_OPTIONS_VARIABLE] = options
    try:
        with LocalZooKeeper() as server, connect(server.connect_string) as client:
            client.create("/trained/node", b"1", ephemeral=True, makepath=True)
            client.set("/trained/node", b"2")
            client.get_children("/trained")
            client.delete("/trained/node")
    finally:
        del os.environ[JVM_OPTIONS_VARIABLE]


def _train_spark(options: str) -> None:
    """Run a driver with these options through common work, and wait until its JVM has ended, later than Python."""
    options = f"{LIGHT_JVM} {options} -Dlog4j2.configurationFile={_SPARK_LOGGING.as_uri()}"
    environ = {**os.environ, SPARK_JVM_VARIABLE: options, "SPARK_LOCAL_IP": "127.0.0.1"}
    with tempfile.TemporaryDirectory() as directory:
        jvm = _run_training(directory, environ)
        eventually(lambda: not psutil.pid_exists(jvm), _TIMEOUT_S, what="the JVM has written its archive")


def _run_training(directory: str, environ: Mapping[str, str]) -> int:
    """Return the process id of the JVM."""
    done = subprocess.run(
        [sys.executable, str(_TRAINING), directory],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    return int(done.stdout)


if __name__ == "__main__":
    make_archives()
