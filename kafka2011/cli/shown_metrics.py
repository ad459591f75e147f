"""The options of commands that run on and show metrics, and the port that they ask for."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka2011.metrics.metric import Metric, Samples


metrics_port_option = click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="The port where Prometheus reads metrics; 0 picks a free one. See docs/reference/metrics.md.",
)
metrics_address_option = click.option(
    "--metrics-bind-address",
    "metrics_host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The IPv4 address of that port; 0.0.0.0 means all.",
)


@contextmanager
def show_metrics(
    host: str,
    port: int | None,
    metrics: Iterable[Metric],
    take: Callable[[], Samples],
    obstacle: Callable[[], str | None] = lambda: None,
) -> Iterator[None]:
    """Show metrics and health until the end of the block, and say where; without a port do nothing."""
    if port is None:
        yield
        return
    from kafka2011.metrics.serving import shown_metrics

    with shown_metrics(host, port, metrics, take, obstacle) as shown_at:
        click.echo(f"metrics are at http://{host}:{shown_at}/metrics", err=True)
        yield
