"""A real standalone cluster: a master and two workers, an application from the installed wheel, a lost executor."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from tests.support.waiting import eventually
from zk.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.local import LocalCluster

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
PROGRAM = Path(__file__).parent / "programs" / "read_through_a_kill.py"
QUIET = Path(__file__).with_name("log4j2.properties")
MESSAGES = 120_000
DAEMON_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def own_environment(**more: str) -> dict[str, str]:
    """Leave out what this process and its session say of Python and Spark, such as where this checkout is."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    return kept | more


def run(*command: str | Path, cwd: Path, **environment: str) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=own_environment(**environment),
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Build the wheel, install it into an environment of its own, and return that one's Python.

    Requirements come from this environment; as its site-packages only lie on the path, nothing editable works there.
    """
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "kafka2011", "pyspark_kafka2011", "zk"):
        run("cp", "-r", ROOT / name, source, cwd=ROOT)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", source, cwd=source)
    [wheel] = (source / "dist").glob("*.whl")
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
        cwd=ROOT,
    )
    [site] = environment.glob("lib/python*/site-packages")
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.fixture
def master(installed: Path, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a master and two workers on loopback; give its URL and the environment for an application."""
    environment = own_environment(
        SPARK_HOME=str(SPARK_HOME),
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_DAEMON_MEMORY="256m",
        SPARK_DAEMON_JAVA_OPTS=DAEMON_OPTIONS,
        PYSPARK_PYTHON=str(installed),
    )
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    local = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:
        log = tmp_path / "master.log"
        command = [spark_class, "org.apache.spark.deploy.master.Master", *local]
        stack.enter_context(ChildProcess(command, log, env=environment))
        eventually(lambda: re.search(r"I have been elected leader", log.read_text()))
        found = re.search(r"spark://127\.0\.0\.1:\d+", log.read_text())
        assert found is not None
        for number in range(2):
            command = [
                *(spark_class, "org.apache.spark.deploy.worker.Worker", *local),
                *("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"worker-{number}"), found[0]),
            ]
            stack.enter_context(ChildProcess(command, tmp_path / f"worker-{number}.log", env=environment))
        eventually(lambda: log.read_text().count("Registering worker") == 2)
        yield found[0], environment


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_cluster_reads_each_message_once_though_an_executor_is_killed(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    master: tuple[str, dict[str, str]],
    tmp_path: Path,
) -> None:
    """Its tasks run again elsewhere; the format is found in the wheel; stream and sink work there too."""
    create(topic)
    create(f"{topic}.copy")
    for number in range(4):
        first = number * MESSAGES // 4
        payloads = [b"%d" % index for index in range(first, first + MESSAGES // 4)]
        publish(cluster.brokers[number // 2], topic, payloads, number % 2)
    url, environment = master
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{DAEMON_OPTIONS} -Dlog4j2.configurationFile={QUIET.as_uri()}",
        "spark.executor.extraJavaOptions": DAEMON_OPTIONS,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = SPARK_HOME / "bin" / "spark-submit"
    run(submit, "--master", url, *options, PROGRAM, cluster.zk_connect, topic, tmp_path, cwd=tmp_path, **environment)
    found = json.loads((tmp_path / "result.json").read_text())
    assert found["executors killed"] == 1
    assert found["rows"] == found["distinct"] == MESSAGES
    assert found["streamed"] == MESSAGES
