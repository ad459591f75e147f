"""A billion events a day, sustained, through every tier: producer, live cluster, mirror, offline cluster, load."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka2011.demo.frontends import Frontends
from kafka2011.demo.tiers import LOAD_INTERVAL_S, WAREHOUSE, Tiers
from kafka2011.local_cluster import LocalCluster
from paper_benchmarks.experiments.experiment import Experiment, Size
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.usage import TierUsage
from paper_benchmarks.pages.pictures import bars, colour, image, picture
from paper_benchmarks.pages.tables import figure, number, significant, table, text, whole
from paper_benchmarks.systems.kafka2011 import OWN, QUICK_COUNT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.demo.tiers import TiersResult
    from paper_benchmarks.experiments.experiment import Bench

BILLION_A_DAY = 11_600
RATES = {Size.TOY: 50, Size.SMALL: BILLION_A_DAY, Size.PAPER: BILLION_A_DAY}
SECONDS = {Size.TOY: 3, Size.SMALL: 60, Size.PAPER: 600}
_SETTINGS: dict[str, object] = {"num.partitions": 2, "log.default.flush.interval.ms": 200, **QUICK_COUNT}
LIVE = "live broker"
PICTURE = "pipeline.svg"

TEXT = f"""\
Made-up events of a social network (`kafka2011 generate`, confirmed) go to a live broker, `kafka2011 mirror` copies them
to an offline one, and `kafka2011 load --follow` looks there every {LOAD_INTERVAL_S} s and commits what it finds into
tables of Parquet, on local[2]; all on this machine, in processes of their own, and every tier counts for the audit. The
paper's pipeline took about 10 seconds on average, with loads into Hadoop, for close to a billion messages a day:
{BILLION_A_DAY:,} a second. Latency is from `published_at` to the moment at which the row could be read in its table."""


def measure(bench: Bench) -> dict[str, Any]:
    """Run all tiers for a while, and account for every event; one that is missing is a BenchmarkError."""
    rate, seconds = RATES[bench.size], SECONDS[bench.size]
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-", dir=bench.data, ignore_cleanup_errors=True) as path:
        directory = Path(path)
        frontends = Frontends(None, seconds, rate)
        tiers = Tiers(frontends, directory, bench.say, has_spark=True, report=None)
        with LocalCluster(1, directory=directory / "live", properties=_SETTINGS) as live, tiers:
            tiers.start(live, _SETTINGS)
            brokers = {LIVE: live.brokers[0].process.pid}
            with TierUsage(lambda: {**brokers, **tiers.pids()}) as usage:
                result = tiers.finish()
    check(result)
    return {"rate": rate, "seconds": seconds, **facts(result), "cpu_s": usage.cpu_s}


def check(result: TiersResult) -> None:
    """Raise BenchmarkError unless every event went in once, came out once, and could be decoded."""
    failures = result.failures()
    counted = {tier.tier: tier.events for tier in result.rates}
    if len(set(counted.values())) > 1:
        failures.append(f"distinct events differ: {counted}")
    if failures:
        raise BenchmarkError(f"no figure: {'; '.join(failures)}")


def facts(result: TiersResult) -> dict[str, Any]:
    """Return what the tiers came to, for JSON."""
    return {
        "rows": result.rows,
        "quarantined": result.quarantined,
        "gaps": result.gaps,
        "tiers": result.rates,
        "latency": None if result.latency is None else result.latency._asdict(),
    }


# The report ----------------------------------------------------------------------------------------------------------


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Put rates, CPU time and latency into tables."""
    events = body["tiers"][-1]["events"]
    cpu_s = body["cpu_s"]
    with picture(pictures / PICTURE, width=8, height=0.6 + 0.35 * len(cpu_s)) as axes:
        bars(axes, {name: spent_s / events * 1e6 for name, spent_s in cpu_s.items()}, colour(OWN), "CPU us an event")
    latency = body["latency"]
    verdict = (
        f"{body['rate']:,} events a second for {body['seconds']} s: {events:,} distinct events, {body['rows']:,} rows"
        f" (some events are published twice), {body['quarantined']} quarantined, {body['gaps']} gaps in the audit."
    )
    parts = [
        TEXT,
        verdict,
        table(
            body["tiers"],
            [
                ("tier", text("tier")),
                ("distinct events", whole("events")),
                ("had all after s", figure("seconds")),
                ("events/s", lambda tier: number(tier["events"] / tier["seconds"])),
            ],
        ),
        image(pictures / PICTURE, "CPU time an event, by tier"),
        table(
            cpu_s.items(),
            [
                ("process", text(0)),
                ("CPU s", figure(1)),
                ("CPU us an event", figure(1, unit=events / 1e6)),
                ("cores", figure(1, unit=body["seconds"])),
            ],
        ),
        "CPU time has the start of each process in it: the most is that of Spark, in `" + WAREHOUSE + "`.",
    ]
    if latency is not None:
        parts.insert(
            2,
            f"From published to readable in the warehouse: mean {significant(latency['mean_s'])} s, median"
            f" {significant(latency['median_s'])} s, 95% within {significant(latency['p95_s'])} s.",
        )
    return "\n\n".join(parts)


EXPERIMENT = Experiment(
    "pipeline",
    "The whole pipeline",
    "whoever plans one: a billion events a day through every tier, and how soon they can be queried",
    measure,
    chapter,
)
