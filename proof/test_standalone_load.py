"""The commands of docs/how-to/load.md load on a standalone cluster, from a packed environment, while parts are killed.

Counted by (broker, partition, offset, index in set), with Polars and with Spark: every message is one row.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from integration.spark.loading import TIMEOUT_S, Loading
from integration.spark.programs.load_and_die import files_of
from integration.spark.standalone import ROOT, SPARK_HOME, standalone
from kafka2011 import LocalCluster
from kafka2011.warehouse.loading.running_spark import LIGHT, open_spark
from tests.support.waiting import eventually
from zk.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

EVENTS = int(os.environ.get("WAREHOUSE_EVENTS", "120000"))
"""More than 8 MB, so that both executors have work."""
SLOWLY = "--option fetch.size=16384 --target-file-mb 1"
"""A task fetches often, and writes its first files long before its last."""
WORKERS = {"worker-0", "worker-1"}
"""Their directories."""
SPARK_DEFAULTS = """
spark.ui.enabled false
spark.driver.host 127.0.0.1
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.memory 512m
spark.executor.cores 1
"""

pytestmark = pytest.mark.timeout(1800)


@dataclass
class Writer:
    """A Python process that runs a task, and who has started it, up to the worker."""

    python: psutil.Process
    executor: psutil.Process
    worker: psutil.Process

    def packages_from(self, directory: Path) -> set[str]:
        """Return in which parts of a directory the packages are whose compiled code the process has loaded."""
        loaded = {Path(each.path) for each in self.python.memory_maps() if "/site-packages/" in each.path}
        return {path.relative_to(directory).parts[0] for path in loaded}


class Cluster:
    """A standalone cluster of two workers, and a checkout where the document's commands are typed."""

    def __init__(self, url: str, directory: Path) -> None:
        self.directory = directory
        self._url = url
        self._checkout = directory / "checkout"
        shutil.copytree(ROOT, self._checkout, ignore=shutil.ignore_patterns(".*", "build", "*.so", "*.egg-info"))
        conf = self._checkout / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
        path = (str(Path(sys.executable).parent), str(SPARK_HOME / "bin"), os.environ["PATH"])
        kept = {key: value for key, value in os.environ.items() if "PYTHON" not in key and "SPARK" not in key}
        spark = {"SPARK_HOME": str(SPARK_HOME), "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1"}
        self._environment = {**kept, **spark, "PATH": ":".join(path)}
        page = (ROOT / "docs" / "how-to" / "load.md").read_text()
        section = page.split("\n## Load on a Spark cluster")[1].split("\n## ")[0]
        pack, self._submit = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)[0].split("\n\n")
        done = self._typed(pack)
        _, said = done.communicate(timeout=TIMEOUT_S)
        assert done.returncode == 0, said[-3000:]

    def submit(self, loading: Loading) -> subprocess.Popen[str]:
        """Type what submits a load; the process is Spark's driver, whose child is the load."""
        text = self._submit.replace("\nspark-submit", "\nexec spark-submit").rstrip()
        for name, value in {
            "spark://master:7077": self._url,
            "zk1:2181": loading.zk_connect,
            "/data/warehouse": loading.warehouse,
            "page_views": loading.topic,
        }.items():
            assert text.count(name) == 1
            text = text.replace(name, value)
        return self._typed(f"{text} {SLOWLY}")

    def _typed(self, text: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["nice", "bash", "-euc", text],
            cwd=self._checkout,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_spark("local[2]", local=LIGHT)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("standalone")
    with standalone(Path("a-python-that-no-machine-has"), directory) as running:
        yield Cluster(running.url, directory)
    for name in ("checkout", *WORKERS):  # gigabytes, as each executor has unpacked an environment; logs stay
        shutil.rmtree(directory / name, ignore_errors=True)


@pytest.fixture(scope="module")
def brokers() -> Iterator[LocalCluster]:
    with LocalCluster(2, properties={"num.partitions": 2, "log.flush.interval": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def loading(spark: SparkSession, brokers: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Loading:
    return Loading(spark, brokers.zk_connect, tmp_path_factory.mktemp("warehouse"), "page_views")


def writer_that_fetches(ports: set[int]) -> Writer | None:
    """Return a Python process of an executor which is connected to a broker; None while there is none."""
    for worker in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "org.apache.spark.deploy.worker.Worker" not in worker.cmdline():
                continue
            for executor in worker.children():
                for python in executor.children(recursive=True):
                    to = {each.raddr.port for each in python.net_connections("tcp") if each.raddr}
                    if to & ports:
                        return Writer(python, executor, worker)
    return None


@contextlib.contextmanager
def paused_writer(
    load: subprocess.Popen[str], loading: Loading, brokers: LocalCluster, known: set[str]
) -> Iterator[Writer]:
    """Wait until tasks of a load have written files and go on fetching, and stop one of them there."""
    ports = {each.port for each in brokers.brokers.values()}
    found: list[Writer] = []

    def is_writing() -> bool:
        assert load.poll() is None, load.communicate()
        writer = writer_that_fetches(ports) if files_of(loading.table) - known else None
        if writer is not None:
            writer.python.suspend()
            found.append(writer)
        return bool(found)

    eventually(is_writing, TIMEOUT_S, what="a task that has written and fetches")
    try:
        yield found[0]
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            found[0].python.resume()


@pytest.mark.parametrize("what", ["executor", "its Python", "load", "Spark's driver", "driver's machine", "worker"])
def test_a_load_is_whole_though_something_is_killed_while_it_writes(
    master: Cluster, loading: Loading, brokers: LocalCluster, tmp_path: Path, what: str
) -> None:
    """Spark runs tasks again elsewhere; a load that was killed has committed nothing, and the next one does it."""
    loading.publish(EVENTS)
    number, known = loading.number, files_of(loading.table)
    with ExitStack() as stack:
        load = master.submit(loading)
        stack.callback(load.kill)
        with paused_writer(load, loading, brokers, known) as writer:
            assert loading.number == number
            packages = writer.packages_from(master.directory)
            again = ChildProcess(writer.worker.cmdline(), tmp_path / "worker.log", env=writer.worker.environ())
            driver = psutil.Process(load.pid)
            victims = {
                "executor": [writer.executor],
                "its Python": [writer.python],
                "worker": [writer.worker],
                "load": driver.children(),
                "Spark's driver": [driver],
                "driver's machine": [driver, *driver.children()],
            }[what]
            for each in victims:
                each.kill()
        if what == "worker":
            stack.enter_context(again)
        out, said = load.communicate(timeout=TIMEOUT_S)
        if what in {"load", "Spark's driver", "driver's machine"}:
            assert load.returncode != 0
            assert loading.number == number
            load = master.submit(loading)
            out, said = load.communicate(timeout=TIMEOUT_S)
        assert load.returncode == 0, said[-3000:]
    done: dict[str, Any] = json.loads(
        out.splitlines()[-1]
    )  # spark-submit prints there what the load says of its progress, too
    assert (done["rows"], done["failed"], loading.number) == (EVENTS, [], number + 1)
    assert packages <= WORKERS
    assert packages
    loading.check()
