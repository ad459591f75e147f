"""`kafka2011 export`."""

from __future__ import annotations

from pathlib import Path

import click

from kafka2011.cli.options import examples
from kafka2011.cli.output import json_option, show_table
from kafka2011.cli.progress import byte_progress
from kafka2011.errors import LogError


@click.command(
    "export",
    epilog=examples(
        "kafka2011 export logs --topic views --into /data/views",
        "kafka2011 export logs/views-0/00000000000000000000.kafka --into /data/views --json",
    ),
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="PATH...")
@click.option(
    "--into",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to write DIR/broker-ID/TOPIC-PARTITION/FIRST OFFSET.parquet; without broker-ID if the log.dir"
    " has no broker's label.",
)
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be given many times.")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Only this partition; may be given many times.",
)
@json_option
def command(
    paths: tuple[Path, ...], into: Path, topics: tuple[str, ...], partitions: tuple[int, ...], as_json: bool
) -> None:
    """Turn segment files into Parquet files, without a broker.

    A PATH is a segment file, the directory of a partition, a log.dir, or any directory above. Each segment becomes one
    file with a row for each message, also for those in compressed sets: topic, broker_id (null without a broker's
    label), partition, offset, next_offset, index_in_set and payload. An existing file is replaced, so you can export a
    segment again after it has grown. A fault ends the command, names path and offset, and leaves its segment without a
    new file. An unfinished message at the end of a log is left out, with a warning.
    """
    from kafka2011.cli.segment_parquet import export, find_segments

    segments = [
        segment
        for path in paths
        for segment in find_segments(path)
        if (not topics or segment.topic in topics) and (not partitions or segment.partition in partitions)
    ]
    if not segments:
        raise LogError(f"there are no segment files of these topics and partitions in {', '.join(map(str, paths))}")
    by_target = {segment.target: segment for segment in segments}
    for segment in segments:
        other = by_target[segment.target]
        if other.path.resolve() != segment.path.resolve():
            raise LogError(f"{segment.path} and {other.path} would be one file: export them into different directories")
    segments = list(by_target.values())
    total_bytes = sum(segment.path.stat().st_size for segment in segments)
    with byte_progress("exported", total_bytes) as advance:
        exported = [done for segment in segments if (done := export(segment, into, advance)) is not None]
    show_table(
        ("path", "into", "messages", "end_offset", "bytes"),
        [(str(done.path), str(done.into), *done[2:]) for done in exported],
        as_json=as_json,
        noun="message",
    )
