"""Puts a collector together, runs it, and takes it apart again."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.pipeline.collect.collector import Collector
from kafka2011.pipeline.collect.files import Files
from kafka2011.pipeline.collect.inputs import Inputs, SocketAddress, close_listener, open_listener
from kafka2011.pipeline.collect.lines import LineCutter
from kafka2011.pipeline.collect.positions import Positions
from kafka2011.pipeline.collect.spool import SPOOL_BYTES, Spool
from kafka2011.pipeline.delivery import Delivery
from kafka2011.producer.producer import Producer
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    from kafka2011.config import ProducerConfig
    from kafka2011.pipeline.collect.counts import CollectCounts
    from kafka2011.producer.batch import Receipt

logger = logging.getLogger(__name__)

STDIN = "-"
DEFAULTS: dict[str, object] = {
    "queue.time": 20,  # lines must not wait for others
    "batch.size": 2000,
    "queue.size": 100_000,  # more than may be unconfirmed, so that no send waits
}
"""Settings of the producer, unless somebody chooses others. It must be asynchronous and confirm."""

_SPOOL_NAME = "spool"


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """What to collect: paths, "-" among them for standard input, and where to listen.

    `state` is the directory with positions and spool. Lines over `max_line_bytes` are cut, or left out. The spool takes
    `spool_bytes`; beyond that it `drops_when_full`, or nothing more is read. With `as_page_views` each line, of an
    access log, becomes a PageView, and counts as tier `audit` of the audit, if that is named; that needs `zk_connect`,
    where the schema is registered, and the extra `pipeline`.
    """

    paths: tuple[str, ...]
    topic: str
    state: Path
    max_line_bytes: int
    listen: SocketAddress | None = None
    follow: bool = False
    refuse_too_long: bool = False
    as_page_views: bool = False
    spool_bytes: int = SPOOL_BYTES
    drops_when_full: bool = False
    audit: str = ""
    zk_connect: str = ""

    @property
    def runs_on(self) -> bool:
        """Whether it only ends when it is stopped."""
        return self.follow or self.listen is not None


def collect(options: CollectOptions, config: ProducerConfig, stop: threading.Event, counts: CollectCounts) -> None:
    """Collect until everything has ended, or until `stop` is set.

    Raises KafkaError: when the state cannot be used, no cluster is found at the start, or, unless it runs on, something
    is not confirmed in time.
    """
    wake = threading.Event()

    def new_cutter() -> LineCutter:
        return LineCutter(options.max_line_bytes, refuse=options.refuse_too_long)

    with ExitStack() as opened:
        positions = Positions(options.state, options.topic)
        opened.callback(positions.close)
        listener = None
        if options.listen is not None:
            listener = open_listener(options.listen)
            opened.callback(close_listener, listener)
            logger.info("listening at %s", listener.getsockname())
        takes_stdin = STDIN in options.paths
        spool = inputs = None
        directory = options.state / _SPOOL_NAME
        if takes_stdin or listener is not None or directory.is_dir():  # or it holds what is to be sent first
            spool = Spool(
                directory,
                options.topic,
                options.spool_bytes,
                positions.spool_offset,
                counts,
                SYSTEM_CLOCK,
                drops=options.drops_when_full,
                places=options.as_page_views,
                on_append=wake.set,
            )
            opened.callback(spool.close)
            stdin = sys.stdin.fileno() if takes_stdin else None
            inputs = Inputs(spool, counts, new_cutter, stdin=stdin, listener=listener)
        publish = _publishing(options, config, positions.id, opened)
        producer = opened.enter_context(Producer(config))
        delivery = Delivery(publish(producer), producer.flush, counts, SYSTEM_CLOCK, tries_again=options.runs_on)
        paths = [path for path in options.paths if path != STDIN]
        files = Files(
            paths, positions, counts, new_cutter, SYSTEM_CLOCK, follow=options.follow, places=options.as_page_views
        )
        collector = Collector(
            files, positions, delivery, counts, SYSTEM_CLOCK, spool=spool, inputs=inputs, stop=stop, wake=wake
        )
        collector.run(config.confirm_timeout_ms / 1000)


def _publishing(
    options: CollectOptions, config: ProducerConfig, collector: str, opened: ExitStack
) -> Callable[[Producer], Callable[[list[bytes]], Future[Receipt]]]:
    """Return what makes a function that publishes lines through a producer."""
    if not options.as_page_views:
        return lambda producer: lambda lines: producer.send(options.topic, lines)
    # Imported here, so that plain lines need neither Avro nor, with broker.list, kazoo.
    from kafka2011.pipeline.collect.page_views import page_views  # noqa: PLC0415

    return opened.enter_context(page_views(config, options.zk_connect, options.topic, collector, options.audit))
