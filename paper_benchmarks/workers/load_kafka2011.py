"""Loads a topic as `kafka2011 load` does, once its engine has loaded another one, which warms it up."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.loader import Loader
from kafka2011.warehouse.loading.local_engine import LocalEngine
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.usage import tree_cpu_s
from paper_benchmarks.measuring.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka2011.warehouse.loading.engine import Engine
    from paper_benchmarks.measuring.worker import Work


@contextmanager
def _engine(cores: int, spark: bool) -> Iterator[Engine]:
    if not spark:
        with LocalEngine(cores) as engine:
            yield engine
        return
    from kafka2011.warehouse.loading.running_spark import open_spark  # noqa: PLC0415 (other lines need no Spark)
    from kafka2011.warehouse.loading.spark_engine import SparkEngine  # noqa: PLC0415

    session = open_spark(f"local[{cores}]", {"spark.driver.memory": "4g"}, name="benchmark")
    try:
        yield SparkEngine(session.sparkContext)
    finally:
        session.stop()


def _run(loader: Loader) -> None:
    done = loader.run()
    for topic, error in done.failed.items():
        raise BenchmarkError(f"{topic} was not loaded: {error}")


@contextmanager
def _prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    settings = LoadSettings(zk_connect=job["zk_connect"], tier=job["tier"])
    with ExitStack() as stack:
        engine = stack.enter_context(_engine(job["cores"], job["spark"]))
        warm, loader = (
            stack.enter_context(Loader(engine, job["warehouse"], settings, topics=[topic]))
            for topic in (job["warm_topic"], job["topic"])
        )
        _run(warm)

        def run() -> Mapping[str, Any]:
            began_s = tree_cpu_s()
            _run(loader)
            return {"cpu_s": tree_cpu_s() - began_s}

        yield {}, run


if __name__ == "__main__":
    work(_prepare)
