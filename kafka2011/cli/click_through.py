"""`kafka2011 click-through`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.spark_session import spark_session
from kafka2011.cli.stopping import stop_signals, wait_for_stop
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


@click.command(
    "click-through",
    epilog=examples(
        "kafka2011 click-through --checkpoint /data/checkpoints/click-through --from-beginning",
    ),
)
@zookeeper_option
@click.option(
    "--checkpoint",
    required=True,
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Where the stream keeps its progress: with the same DIR it continues.",
)
@click.option(
    "--topic", default="search_click_through", show_default=True, metavar="TOPIC", help="Where results are published."
)
@click.option(
    "--within", type=click.IntRange(1), default=60, show_default=True, help="Seconds in which a click counts."
)
@click.option(
    "--late", type=click.IntRange(0), default=30, show_default=True, help="Seconds by which an event may come late."
)
@click.option("--from-beginning", is_flag=True, help="Without a checkpoint: begin with the oldest events.")
def command(zk_connect: str, checkpoint: str, topic: str, within: int, late: int, from_beginning: bool) -> None:
    """Publish the click-through of searches over the last 1 and 5 minutes, until Ctrl-C.

    A Spark stream that joins the topics searches and clicks. For every ten seconds of events it publishes one event,
    once that is final: after the seconds of --within and --late. Events that come later do not count.
    """
    from kafka2011.reports.click_through import ClickThroughSettings, start_click_through

    settings = ClickThroughSettings(click_within_s=within, late_s=late)
    start = "earliest" if from_beginning else "latest"
    # Spark takes SIGINT for itself when it starts: so signals are ours only after that.
    with spark_session("click-through", is_short=True) as spark, stop_signals() as stop:
        query = start_click_through(
            spark, zk_connect, checkpoint, topic=topic, settings=settings, starting_offsets=start
        )
        try:
            click.echo(f"Publishing to {topic}. Ctrl-C ends it.", err=True)
            wait_for_stop(stop, lambda: _look(query))
        finally:
            query.stop()


def _look(query: StreamingQuery) -> None:
    if not query.isActive:
        raise KafkaError(f"the stream has ended: {query.exception()}")
