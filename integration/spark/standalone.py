"""A standalone cluster of Spark on loopback: a master, two workers, and applications from the installed wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyspark

from integration.jvm_archives import spark_options
from tests.support.waiting import eventually
from zk.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
TIMEOUT_S = 170.0

_QUIET = Path(__file__).with_name("log4j2.properties")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
}


def install_wheel(directory: Path) -> Path:
    """Build the wheel, install it into an environment of its own, and return that one's Python.

    Requirements come from this environment; as its site-packages only lie on the path, nothing editable works there.
    """
    source = directory / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "kafka2011", "pyspark_kafka2011", "zk"):
        _run("cp", "-r", ROOT / name, source, cwd=ROOT)
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", source, cwd=source)
    [wheel] = (source / "dist").glob("*.whl")
    environment = directory / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    _run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=ROOT)
    [site] = environment.glob("lib/python*/site-packages")
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib"))
    return python


class Standalone:
    """A cluster that runs; applications and executors use the Python that was given."""

    def __init__(self, url: str, directory: Path, environment: dict[str, str], workers: list[ChildProcess]) -> None:
        self.url = url
        self._directory = directory
        self._environment = environment
        self._workers = workers

    def submit(self, program: Path, *arguments: str | Path, timeout_s: float = TIMEOUT_S) -> str:
        """Run `spark-submit --master` with this cluster's, and return what the program printed."""
        settings = {
            **_SETTINGS,
            "spark.driver.extraJavaOptions": f"{spark_options()} -Dlog4j2.configurationFile={_QUIET.as_uri()}",
            "spark.executor.extraJavaOptions": spark_options(),
        }
        options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        command = (SPARK_HOME / "bin" / "spark-submit", "--master", self.url, *options, program, *arguments)
        return _run(*command, cwd=self._directory, timeout_s=timeout_s, **self._environment)

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run now."""
        found = (each for worker in self._workers for each in psutil.Process(worker.pid).children(recursive=True))
        return [each for each in found if _is_executor(each)]


@contextmanager
def standalone(python: Path, directory: Path) -> Iterator[Standalone]:
    """Start a master and two workers with a core each; logs and all that applications leave lie in the directory."""
    environment = _own_environment(
        SPARK_HOME=str(SPARK_HOME),
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_DAEMON_MEMORY="256m",
        SPARK_DAEMON_JAVA_OPTS=spark_options(),
        PYSPARK_PYTHON=str(python),
    )
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    local = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:
        log = directory / "master.log"
        command = [spark_class, "org.apache.spark.deploy.master.Master", *local]
        stack.enter_context(ChildProcess(command, log, env=environment))
        eventually(lambda: re.search(r"I have been elected leader", log.read_text()))
        found = re.search(r"spark://127\.0\.0\.1:\d+", log.read_text())
        assert found is not None
        workers = []
        for number in range(2):
            command = [
                *(spark_class, "org.apache.spark.deploy.worker.Worker", *local),
                *("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"worker-{number}"), found[0]),
            ]
            worker = ChildProcess(command, directory / f"worker-{number}.log", env=environment)
            workers.append(stack.enter_context(worker))
        eventually(lambda: log.read_text().count("Registering worker") == 2)
        yield Standalone(found[0], directory, environment, workers)


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _own_environment(**more: str) -> dict[str, str]:
    """Leave out what this process and its session say of Python and Spark, such as where this checkout is."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    return kept | more


def _run(*command: str | Path, cwd: Path, timeout_s: float = TIMEOUT_S, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=_own_environment(**environment),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout
