"""Derives reports: days with new events are recomputed whole; all others are taken over unchanged.

Counts could be added up, but unique visitors, sessions and joins could not, and events come late: a day recomputed
from all its events is exact, for every report alike. Which events were used is published with the results in one
rename. So whoever derives again, after a crash or twice, neither doubles nor skips: it begins where the newest
results say, or comes to the same.
"""

from __future__ import annotations

import contextlib
import logging
from datetime import date, timedelta
from typing import TYPE_CHECKING

from pyarrow.parquet import ParquetFile
from pyspark.sql import Observation
from pyspark.sql import functions as sql

from kafka2011.reports.catalog import REPORTS
from kafka2011.reports.event_frames import DAY_S, each_once, no_events, readable, unreadable
from kafka2011.reports.report import ReportSettings
from kafka2011.reports.results import Derivation
from kafka2011.warehouse.errors import WarehouseError
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from kafka2011.reports.inputs import ReportInputs
    from kafka2011.reports.report import Report
    from kafka2011.reports.results import Results
    from zk.clock import Clock

logger = logging.getLogger(__name__)

DEFAULT_KEEP = 3


def derive(
    spark: SparkSession,
    inputs: ReportInputs,
    results: Results,
    settings: ReportSettings | None = None,
    *,
    reports: Sequence[Report] = REPORTS,
    finish: Callable[[Path, Derivation], None] | None = None,
    again: bool = False,
    keep: int = DEFAULT_KEEP,
    clock: Clock = SYSTEM_CLOCK,
) -> Derivation | None:
    """Derive what is new, publish it, and return what was done; None when there is nothing new.

    `results` must have been entered. `finish` is called with the directory before it is published, and may add to it.
    All days are derived if the settings or the inputs differ from those of the newest results, and with `again`. The
    newest `keep` derivations stay. Raises WarehouseError and OSError; nothing is published then.
    """
    settings = settings or ReportSettings()
    before = results.newest()
    if before is not None:
        results.point_to(before.number)  # a derivation may have been killed before it did
    goes_on = not again and _goes_on(before, inputs, settings, reports)
    after = before.through if before is not None and goes_on else {}
    if before is not None and goes_on and dict(after) == dict(inputs.through):
        results.remove_old(keep)
        return None
    days = _touched(inputs, reports, settings, after) if goes_on else None
    with results.staging() as staging:
        with _frames(spark, inputs, reports, settings, days) as frames:
            for report in reports:
                of_report = None if days is None else days[report.name]
                if of_report is None or of_report:
                    made = report.make(_frames_of(report, frames), settings)
                    _write(made if of_report is None else made.where(_among(of_report)), report, staging)
                if before is not None and of_report is not None:
                    results.take_over(before.number, report.name, staging, without=of_report)
        derivation = Derivation(
            number=before.number + 1 if before is not None else 1,
            derived_at_ms=int(clock.wall_s() * 1000),
            kind=inputs.kind,
            settings=settings.to_json(reports),
            after=after,
            through=inputs.through,
            days={
                report.name: _written_days(staging, report) if days is None else tuple(sorted(days[report.name]))
                for report in reports
            },
        )
        if finish is not None:
            finish(staging, derivation)
        results.publish(staging, derivation)
    results.remove_old(keep)
    return derivation


def _goes_on(
    before: Derivation | None, inputs: ReportInputs, settings: ReportSettings, reports: Sequence[Report]
) -> bool:
    """Say whether a derivation can be continued: nothing but more commits has come since."""
    return (
        before is not None
        and before.kind == inputs.kind
        and before.settings == settings.to_json(reports)
        and set(before.days) == {report.name for report in reports}
        and inputs.goes_on(before.through)
    )


def _touched(
    inputs: ReportInputs, reports: Sequence[Report], settings: ReportSettings, after: Mapping[str, object]
) -> dict[str, set[date]]:
    """Return the days of each report that new events belong to."""
    known: dict[tuple[str, int], set[date]] = {}
    days: dict[str, set[date]] = {report.name: set() for report in reports}
    for report in reports:
        for topic in report.topics:
            if topic in inputs.through and inputs.through[topic] != after.get(topic):
                reach_s = report.reach_of(topic, settings)
                if (topic, reach_s) not in known:
                    known[topic, reach_s] = inputs.touched(topic, after.get(topic), reach_s)
                days[report.name] |= known[topic, reach_s]
    return days


@contextlib.contextmanager
def _frames(
    spark: SparkSession,
    inputs: ReportInputs,
    reports: Sequence[Report],
    settings: ReportSettings,
    days: Mapping[str, Collection[date]] | None,
) -> Iterator[dict[str, DataFrame]]:
    """Give each topic's events of all days that reports need, each once; they are read once, while this lasts."""
    frames: dict[str, DataFrame] = {}
    try:
        for topic in sorted({topic for report in reports for topic in report.topics}):
            if topic in inputs.through:
                needed = None if days is None else _needed(topic, reports, settings, days)
                frames[topic] = each_once(inputs.events(topic, needed)).persist()
            else:
                frames[topic] = no_events(spark, topic)
        yield frames
    finally:
        for frame in frames.values():
            frame.unpersist()


def _frames_of(report: Report, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    kept = unreadable if report.reads_unreadable else readable
    return {topic: kept(frames[topic]) for topic in report.topics}


def _needed(
    topic: str, reports: Sequence[Report], settings: ReportSettings, days: Mapping[str, Collection[date]]
) -> set[date]:
    """Return the days whose events of a topic the reports need."""
    needed: set[date] = set()
    for report in reports:
        if topic in report.topics:
            more = -(-report.reach_of(topic, settings) // DAY_S)
            needed |= {day + timedelta(days=later) for day in days[report.name] for later in range(more + 1)}
    return needed


def _among(days: Collection[date]) -> Column:
    return sql.col("date").isin(sorted(days))


def _write(made: DataFrame, report: Report, staging: Path) -> None:
    """Write a report's days, a file for each; raises WarehouseError unless all rows are where the driver looks."""
    directory = staging / report.name
    seen = Observation(report.name)
    (
        made.observe(seen, sql.count(sql.lit(1)).alias("rows"))
        .repartition("date")
        .sortWithinPartitions("date", *report.order)
        .write.partitionBy("date")
        .option("compression", "zstd")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        .parquet(f"file://{directory.absolute()}")
    )
    written = sum(ParquetFile(file).metadata.num_rows for file in directory.glob("date=*/*.parquet"))
    # Spark observes nothing of a frame that it finds to be empty.
    if written != seen.get["rows"] if written else not made.isEmpty():
        raise WarehouseError(
            f"{directory} has {written} rows of {report.name}, and there are more: results must lie in a directory that"
            " the driver and all executors share"
        )
    for checksum in directory.rglob(".*.crc"):
        checksum.unlink()
    logger.info("Derived %d rows of %s", written, report.name)


def _written_days(staging: Path, report: Report) -> tuple[date, ...]:
    names = sorted(path.name for path in (staging / report.name).glob("date=*"))
    return tuple(date.fromisoformat(name.removeprefix("date=")) for name in names)
