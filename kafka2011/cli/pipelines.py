"""The option `--pipeline` of several commands, and the declaration that `audit --write-pipeline` makes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.audit.pipeline import Pipeline
    from kafka2011.config import SimpleConsumerConfig
    from zk.client import ZkClient

_Command = TypeVar("_Command", bound="Callable[..., object]")


def pipeline_option(meaning: str) -> Callable[[_Command], _Command]:
    """Return the option that names the file of a declared pipeline."""
    return click.option(
        "--pipeline",
        "pipeline_path",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help=meaning,
    )


def read_pipeline(path: Path | None) -> Pipeline | None:
    """Read a declaration; None without a path. Raises PipelineError."""
    if path is None:
        return None
    from kafka2011.audit.pipeline import Pipeline

    return Pipeline.load(path)


def audited_zookeeper(context: click.Context, zk_connect: str, pipeline: Pipeline | None) -> str:
    """Return where to read reports: what the caller has named, else the cluster that the last declared tier reads."""
    if pipeline is None or context.get_parameter_source("zk_connect") is not ParameterSource.DEFAULT:
        return zk_connect
    return pipeline.last_cluster.zookeeper


def write_pipeline(
    client: ZkClient, zk_connect: str, config: SimpleConsumerConfig, path: Path, *, overwrite: bool
) -> None:
    """Write a declaration of all that has reported to a cluster. Raises KafkaError, also for a file that exists."""
    from kafka2011.admin.groups import Groups
    from kafka2011.audit.observed import COMMENTS, observe
    from kafka2011.audit.reader import AuditReader
    from kafka2011.audit.received import ReceivedReports
    from kafka2011.disk import SYSTEM_DISK

    if path.exists() and not overwrite:
        raise KafkaError(f"{path} exists: give --overwrite to replace it")
    received, reader = ReceivedReports(), AuditReader(config)
    seen = list(dict.fromkeys(report.tier for report in reader.read(client, received=received)))
    pipeline = observe(received, zk_connect, reader.scan.home, seen, Groups(client).names())
    if not pipeline.tiers:
        raise KafkaError("no tier has reported yet, so a declaration would be empty")
    try:
        with SYSTEM_DISK.replacing(path) as file:
            file.write(pipeline.to_toml(COMMENTS).encode())
    except OSError as error:
        raise KafkaError(f"cannot write {path}: {error}") from error
