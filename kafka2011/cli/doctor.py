"""`kafka2011 doctor`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka2011.admin.doctor.checks import CHECKS, lag_that_grows
from kafka2011.admin.doctor.checkup import Finding
from kafka2011.admin.doctor.examination import examine
from kafka2011.admin.doctor.machine import (
    damage_in_logs,
    disk_against_retention,
    segment_times_that_are_wrong,
    settings_that_do_not_fit,
    snapshots_that_pile_up,
)
from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.log_offsets import with_log_offsets
from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import counted, json_option, show_json_list
from kafka2011.cli.pipelines import pipeline_option, read_pipeline
from kafka2011.cli.session import open_session
from kafka2011.cli.stopping import stop_signals
from kafka2011.config import BrokerConfig, SimpleConsumerConfig
from kafka2011.errors import KafkaError, MissingExtraError, as_failure
from kafka2011.printable import printable
from zk.errors import MalformedNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka2011.events.schemas import EventSchema
    from zk.client import ZkClient

_MACHINE_CHECKS = (settings_that_do_not_fit, disk_against_retention, segment_times_that_are_wrong, damage_in_logs)


@click.command(
    "doctor",
    epilog=examples(
        "kafka2011 doctor",
        "kafka2011 doctor --seconds 0 --json",
        "kafka2011 doctor --config server.properties --zookeeper-data /var/lib/zookeeper",
        "kafka2011 doctor --pipeline pipeline.toml",
    ),
)
@zookeeper_option
@click.option(
    "--seconds",
    type=click.FloatRange(0, 3600),
    default=12,
    show_default=True,
    help="How long to watch the lag; longer than autocommit.interval.ms of the members. 0 turns this off.",
)
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="SERVER.PROPERTIES",
    help="On a broker's machine: also check its settings and its disk.",
)
@click.option(
    "--zookeeper-data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="On a ZooKeeper server's machine: also check its snapshots.",
)
@click.option("--warehouse", metavar="PATH", help="Also check the tables of topics in this warehouse.")
@pipeline_option("Also check the clusters and topics that this file declares, and which tiers do not report.")
@json_option
def command(
    zk_connect: str,
    seconds: float,
    file: Path | None,
    zookeeper_data: Path | None,
    warehouse: str | None,
    pipeline_path: Path | None,
    as_json: bool,
) -> None:
    """Find what is wrong with a cluster, and say what to do about it.

    It checks ZooKeeper's servers, and brokers: no answer, address clashes, clocks, retention by age, too few replicas.
    It checks topics without a broker or on some brokers only, requests that no broker carries out, and schemas whose
    events loads put into quarantine. It checks groups: partitions without an owner, owners without a member, offsets
    outside the log, growing lag. With --config it also checks settings, the disk against retention, times of segments,
    and damaged segments. With --zookeeper-data it also checks snapshots; with --warehouse, tables for texts that 0.2.0
    wrote in place of decimals; with --pipeline, its clusters, and groups and mirrors that have stopped. It changes
    nothing. It fails if it finds a problem.
    """
    findings = [
        *_findings(zk_connect, seconds, file, zookeeper_data),
        *checked("tables", _of_tables(zk_connect, warehouse)),
        *_of_pipeline(zk_connect, pipeline_path),
    ]
    if as_json:
        show_json_list(finding._asdict() for finding in findings)
    else:
        for finding in findings:
            click.echo(f"{printable(finding.where)}: {printable(finding.what)}\n  -> {printable(finding.remedy)}")
    if findings:
        raise KafkaError(f"{counted(len(findings), 'problem')} found")
    if not as_json:
        click.echo("No problems found.")


def _findings(zk_connect: str, seconds: float, file: Path | None, zookeeper_data: Path | None) -> Iterator[Finding]:
    with open_session(zk_connect) as client, stop_signals() as stop:
        checkup = examine(client, zk_connect)
        groups = checkup.cluster.groups
        for check in CHECKS:
            yield from checked("cluster", check(checkup))
        yield from checked("schemas", _of_schemas(client))
        if seconds and groups and sys.stderr.isatty():
            click.echo(f"checking in {seconds:g} s whether lag grows (--seconds 0 turns this off)", err=True)
        if seconds and groups and not stop.wait(seconds):
            now = with_log_offsets(ClusterReader(client).read_groups())
            yield from lag_that_grows(checkup.cluster, now)
    if file is not None:
        config = BrokerConfig.from_sources(file, os.environ, ())
        for check_machine in _MACHINE_CHECKS:
            yield from checked(f"broker of {file}", check_machine(config))
    if zookeeper_data is not None:
        yield from checked(str(zookeeper_data), snapshots_that_pile_up(zookeeper_data))


def checked(where: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings of one check; if it fails, a finding that says why, so that the others are shown as well."""
    try:
        yield from findings
    except BaseException as error:  # noqa: BLE001 (whatever it is, the other checks are made)
        yield Finding(where, f"could not be checked: {as_failure(error)}", "mend what the error names")


def _of_schemas(client: ZkClient) -> Iterator[Finding]:
    """Yield what hinders loads; nothing where the extra for schemas is not installed."""
    try:
        from kafka2011.events.schema_checkup import examine_schemas
    except MissingExtraError:
        return
    yield from examine_schemas(client)


def _of_tables(zk_connect: str, warehouse: str | None) -> Iterator[Finding]:
    if warehouse is None:
        return
    from kafka2011.events.errors import InvalidSchemaError, UnknownSchemaError
    from kafka2011.events.schema_registry import SchemaRegistry

    schemas = {}
    with open_session(zk_connect) as client:
        registry = SchemaRegistry(client)
        for topic in registry.topics():
            with contextlib.suppress(UnknownSchemaError, InvalidSchemaError, MalformedNode):  # said by another check
                found = registry.of_topic(topic)
                schemas[topic] = [numbered.schema for numbered in (*found.retired, *found.in_use)]
    for name, of_topic in schemas.items():
        yield from checked(f"table of {name}", _texts_in_table(warehouse, name, of_topic))


def _texts_in_table(warehouse: str, topic: str, schemas: Sequence[EventSchema]) -> Iterator[Finding]:
    """Yield the columns with texts of bytes in the table of a topic."""
    from kafka2011.warehouse.table.table_checkup import examine_tables

    for _, table_path, column, count in examine_tables(warehouse, {topic: schemas}):
        again = f"{topic}-again"
        yield Finding(
            f"table {table_path}",
            f"column {column} has {count} texts of bytes in place of a decimal: an earlier release took the default"
            " of a decimal for bytes",
            f"rebuild the table: `kafka2011 load --warehouse {warehouse} --topic {topic} --rebuild --into {again}`,"
            f" then `kafka2011 tables swap --warehouse {warehouse} {topic} {again}`",
        )


def _of_pipeline(zk_connect: str, path: Path | None) -> Iterator[Finding]:
    pipeline = read_pipeline(path)
    if pipeline is None:
        return
    from kafka2011.audit.pipeline_checkup import examine_pipeline

    config = SimpleConsumerConfig.from_sources(environ=os.environ)
    with open_session(zk_connect) as client:
        yield from examine_pipeline(client, zk_connect, pipeline, open_session, config, int(time.time() * 1000))
