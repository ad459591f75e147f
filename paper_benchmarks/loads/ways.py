"""Who loads a topic into a table: ours by each engine, and those beside it; and what each of them needs."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paper_benchmarks.loads.messages import Case, Form, schema_of
from paper_benchmarks.measuring.worker import ROOT
from paper_benchmarks.systems.kafka import KIND as KAFKA
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.local_server import missing_modules

if TYPE_CHECKING:
    from collections.abc import Callable

    from paper_benchmarks.systems.system import System

CORES = 2
"""Processes, or threads of Spark, that load."""
SPARK_PYTHON = ROOT / ".venv" / "spark-delta" / "bin" / "python"
"""Of the environment that Delta's jars need: they come for some versions of Spark."""
_WORKERS = "paper_benchmarks.workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to load. `kind` is the system that has the messages; `worker` is the module that does it, by `python`.

    `forms` are those that it loads. `missing` says why it cannot be run here, or None.
    """

    name: str
    kind: str
    worker: str
    options: dict[str, Any]
    forms: tuple[Form, ...] = tuple(Form)
    python: str | None = None
    missing: Callable[[], str | None] = lambda: None

    def job(self, case: Case, system: System, warehouse: str) -> dict[str, Any]:
        """Return what its worker is told, so that it loads the topic of a case into a warehouse."""
        job = {"topic": case.topic, "warm_topic": warm_topic(case), "warehouse": warehouse, **self.options}
        if self.kind == OWN:
            tier = f"warehouse-{secrets.token_hex(4)}" if job["tier"] else ""  # one table of a tier is the only one
            return {**job, "zk_connect": system.server()["zk_connect"], "tier": tier}
        schema = schema_of(case.form).text if case.form is Form.EVENT else ""
        return {**job, "address": f"{system.host}:{system.port}", "schema": schema}


def warm_topic(case: Case) -> str:
    """Return the topic that is loaded before the one that is timed."""
    return f"warm_{case.topic}"


def _ours(name: str, *, spark: bool, tier: str = "") -> Way:
    options = {"cores": CORES, "spark": spark, "tier": tier}
    return Way(name=name, kind=OWN, worker=f"{_WORKERS}.load_kafka2011", options=options)


def _delta_rs(name: str, library: str, *modules: str, form: Form) -> Way:
    return Way(
        name=name,
        kind=KAFKA.name,
        worker=f"{_WORKERS}.load_delta_rs",
        options={"library": library},
        forms=(form,),
        missing=lambda: missing_modules("confluent_kafka", *modules),
    )


def _no_spark() -> str | None:
    return None if SPARK_PYTHON.exists() else "Spark with Delta's jars is not there (make bench-rivals)"


NONE, NONE_AUDIT = "load --master none[2]", "load --master none[2] --audit"
SPARK, SPARK_AUDIT = "load --master local[2]", "load --master local[2] --audit"
WAYS = (
    _ours(NONE, spark=False),
    _ours(NONE_AUDIT, spark=False, tier="warehouse"),
    _ours(SPARK, spark=True),
    _ours(SPARK_AUDIT, spark=True, tier="warehouse"),
    _delta_rs("confluent-kafka, PyArrow, delta-rs", "text", form=Form.LINE),
    _delta_rs("confluent-kafka, pyruhvro, delta-rs", "pyruhvro", "pyruhvro", form=Form.EVENT),
    _delta_rs("confluent-kafka, fastavro, delta-rs", "fastavro", form=Form.EVENT),
    Way(
        name="Spark's Kafka source, delta-spark",
        kind=KAFKA.name,
        worker=f"{_WORKERS}.load_delta_spark",
        options={"cores": CORES},
        python=str(SPARK_PYTHON),
        missing=_no_spark,
    ),
)
