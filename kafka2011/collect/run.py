"""Puts a collector together, runs it, and takes it apart again."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from kafka2011.collect.collector import Collector
from kafka2011.collect.delivery import Delivery
from kafka2011.collect.line_inputs import LineInputs, close_listener, open_listener
from kafka2011.collect.lines import LineCutter, Nul
from kafka2011.collect.positions import Positions
from kafka2011.collect.spool import Spool, SpoolSettings
from kafka2011.collect.watched_files import WatchedFiles
from kafka2011.producer.producer import Producer
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.options import CollectOptions
    from kafka2011.collect.page_views import PageViews
    from kafka2011.config import ProducerConfig

logger = logging.getLogger(__name__)

STDIN = "-"
DEFAULTS: dict[str, object] = {
    "queue.time": 20,  # lines must not wait for others
    "batch.size": 2000,
    "queue.size": 100_000,  # more than may be unconfirmed, so no send waits
}
"""Default settings of the producer, which must be asynchronous and confirm."""

_SPOOL_NAME = "spool"


def collect(options: CollectOptions, config: ProducerConfig, stop: threading.Event, counts: CollectCounts) -> None:
    """Collect what `options` describe until all inputs have ended, or until `stop` is set.

    Raises KafkaError: when the state cannot be used, no cluster is found at the start, or, unless it runs on, something
    is not confirmed in time.

    `counts` has what was done, also while it runs.
    """
    wake = threading.Event()

    def new_cutter(*, skips_nul: bool = False) -> LineCutter:
        return LineCutter(options.max_line_bytes, refuse=options.refuse_too_long, skips_nul=skips_nul)

    with ExitStack() as opened:
        positions = Positions(options.state, options.topic)
        opened.callback(positions.close)
        inputs = _line_inputs(options, positions, counts, new_cutter, wake, opened)
        views = _page_views(options, config, positions, counts, opened) if options.as_page_views else None
        producer = opened.enter_context(Producer(config))
        publish = views.through(producer) if views is not None else lambda lines: producer.send(options.topic, lines)
        delivery = Delivery(publish, producer.flush, counts, SYSTEM_CLOCK, tries_again=options.runs_on)
        paths = [path for path in options.paths if path != STDIN]
        files = WatchedFiles(
            paths,
            positions,
            counts,
            partial(new_cutter, skips_nul=options.nul is Nul.SKIP),
            SYSTEM_CLOCK,
            follow=options.follow,
            places=options.as_page_views,
            refuses_nul=options.nul is Nul.REFUSE,
        )
        collector = Collector(
            files,
            positions,
            delivery,
            counts,
            SYSTEM_CLOCK,
            inputs=inputs,
            before_save=views.report if views is not None else lambda: None,
            stop=stop,
            wake=wake,
        )
        collector.run(config.confirm_timeout_ms / 1000)


def _line_inputs(
    options: CollectOptions,
    positions: Positions,
    counts: CollectCounts,
    new_cutter: Callable[[], LineCutter],
    wake: threading.Event,
    opened: ExitStack,
) -> LineInputs | None:
    """Return standard input and connections with their spool; None with neither of them and no spool to send first."""
    listener = None
    if options.listen is not None:
        listener = open_listener(options.listen)
        opened.callback(close_listener, listener)
        logger.info("listening at %s", listener.getsockname())
    takes_stdin = STDIN in options.paths
    directory = options.state / _SPOOL_NAME
    if not takes_stdin and listener is None and not directory.is_dir():
        return None
    settings = SpoolSettings(
        directory, options.topic, options.spool_bytes, drops=options.drops_when_full, places=options.as_page_views
    )
    spool = Spool(settings, positions.spool_offset, counts, SYSTEM_CLOCK, on_append=wake.set)
    opened.callback(spool.close)
    stdin = sys.stdin.fileno() if takes_stdin else None
    return LineInputs(spool, counts, new_cutter, stdin=stdin, listener=listener)


def _page_views(
    options: CollectOptions, config: ProducerConfig, positions: Positions, counts: CollectCounts, opened: ExitStack
) -> PageViews:
    # Imported here, so that plain lines need neither Avro nor, with broker.list, kazoo.
    from kafka2011.collect.page_views import PageViews  # noqa: PLC0415

    return opened.enter_context(PageViews(config, options, positions, counts))
