"""A port that shows metrics of a process with threads, such as a mirror."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError
from kafka2011.metrics.exposition import SampleCollector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka2011.metrics.metric import Metric, Samples


@contextmanager
def shown_metrics(host: str, port: int, metrics: Iterable[Metric], take: Callable[[], Samples]) -> Iterator[int]:
    """Show metrics at a port, 0 picks a free one, until the end of the block; give the port.

    Raises MissingExtraError, and KafkaError naming the address when it is taken.
    """
    collector = SampleCollector(metrics, take)
    from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server  # noqa: PLC0415  # an extra

    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise KafkaError(f"cannot listen on {host}:{port} for metrics: {error}") from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
