"""A port that shows metrics and health of a process with threads, such as a mirror.

| path | answer |
|---|---|
| `/healthz` | 200 while all is well, else 503; the text says why |
| any other | the metrics, in Prometheus's text format |
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import contextmanager
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from kafka2011.errors import KafkaError
from kafka2011.metrics.exposition import SampleCollector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka2011.metrics.metric import Metric, Samples

logger = logging.getLogger(__name__)

SILENCE_S = 60.0
"""A connection that says nothing for so long is closed."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind, without asking a name server for our own name, which may take long."""
        TCPServer.server_bind(self)
        host, port, *_ = self.server_address
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """Take what a stranger sends, or leaves unsent, as nothing to be told of."""
        logger.debug("a request for metrics at %s was not answered: %r", client_address, sys.exception())


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S

    def log_message(self, *_: object) -> None:
        """Say nothing: whoever scrapes would fill the log."""


@contextmanager
def shown_metrics(
    host: str,
    port: int,
    metrics: Iterable[Metric],
    take: Callable[[], Samples],
    obstacle: Callable[[], str | None] = lambda: None,
) -> Iterator[int]:
    """Show metrics at a port, 0 picks a free one, until the end of the block; give the port.

    `obstacle` says in a line why all is not well, or None. Raises MissingExtraError, and KafkaError naming the address
    when it is taken.
    """
    collector = SampleCollector(metrics, take)
    from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app  # noqa: PLC0415  # an extra

    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    show = make_wsgi_app(registry)

    def answer(request: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if request["PATH_INFO"] != "/healthz":
            body: Iterable[bytes] = show(request, start_response)
            return body
        why = obstacle()
        status = HTTPStatus.OK if why is None else HTTPStatus.SERVICE_UNAVAILABLE
        text = f"{'ok' if why is None else why}\n".encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
        start_response(f"{status.value} {status.phrase}", headers)
        return [text]

    try:
        server = make_server(host, port, answer, _Server, _Handler)
    except OSError as error:
        raise KafkaError(f"cannot listen on {host}:{port} for metrics: {error}") from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
