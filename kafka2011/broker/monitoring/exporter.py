"""A port of a server's own for Prometheus and for health checks, in its event loop.

| path | answer |
|---|---|
| `/metrics` | the metrics, in Prometheus's text format |
| `/healthz` | 200 while the server is registered and serves, else 503; the text says why |

The numbers are taken between two turns of the event loop. What may take long, asking the disk and writing the text, is
done in a thread, one answer after the other.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import gevent
from gevent.pool import Pool
from gevent.pywsgi import WSGIHandler, WSGIServer
from gevent.threadpool import ThreadPool
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest

from kafka2011.errors import KafkaError
from kafka2011.metrics.exposition import SampleCollector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gevent import socket

    from kafka2011.metrics.metric import Metric, Samples

    StartResponse = Callable[[str, list[tuple[str, str]]], object]

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 16
"""Those beyond wait to be accepted."""
SILENCE_S = 60.0
"""A connection that says nothing for so long is closed: Prometheus asks again on the same one, by default every 15 s to
a minute."""
DISK_PATIENCE_S = 5.0
"""How long a disk may keep an answer waiting."""
_TEXT = "text/plain; charset=utf-8"


class Exporter:
    """Answers about a server at `host` and `port`, where 0 picks a free one; `start` and `stop` may be called twice.

    `name` is what the log calls the server, `metrics` are all that it has. `take` takes the numbers in the event loop,
    `add` adds in a thread what takes longer, and `obstacle` says why the server does not serve, None if it does.
    """

    def __init__(
        self,
        name: str,
        metrics: Iterable[Metric],
        take: Callable[[], Samples],
        obstacle: Callable[[], str | None],
        host: str,
        port: int,
        *,
        add: Callable[[], Samples] = dict,
    ) -> None:
        self._name = name
        self._take = take
        self._add = add
        self._obstacle = obstacle
        self._host = host
        self.port = port
        self._server: WSGIServer | None = None
        self._renderer: ThreadPool | None = None
        self._taken: Samples = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(SampleCollector(metrics, lambda: self._taken))
        ProcessCollector(registry=self._registry)

    def start(self) -> None:
        """Listen. Raises KafkaError naming the address when it is taken."""
        if self._server is not None:
            return
        self._server = WSGIServer(
            (self._host, self.port),
            self._answer,
            log=None,
            error_log=logger,
            handler_class=_Handler,
            spawn=Pool(MAX_CONNECTIONS),
        )
        try:
            self._server.start()
        except OSError as error:
            self._server = None
            raise KafkaError(f"cannot listen on {self._host}:{self.port} for metrics: {error}") from error
        self.port = self._server.server_port or self.port
        self._renderer = ThreadPool(1)
        logger.info("%s shows its metrics at http://%s:%d/metrics", self._name, self._host, self.port)

    def stop(self) -> None:
        """Close the port, and cut off who is being answered."""
        server, self._server = self._server, None
        if server is not None:
            server.stop(timeout=0)
        renderer, self._renderer = self._renderer, None
        if renderer is not None:
            gevent.with_timeout(DISK_PATIENCE_S, renderer.kill, timeout_value=None)

    def _answer(self, request: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        status, kind, body = self._answer_to(request["REQUEST_METHOD"], request["PATH_INFO"])
        start_response(f"{status.value} {status.phrase}", [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [] if request["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer_to(self, method: str, path: str) -> tuple[HTTPStatus, str, bytes]:
        if method not in {"GET", "HEAD"}:
            return HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"GET only\n"
        if path == "/metrics":
            text = self._metrics()
            if text is None:
                return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"the disk does not answer\n"
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, text
        if path == "/healthz":
            obstacle = self._obstacle()
            if obstacle is None:
                return HTTPStatus.OK, _TEXT, b"ok\n"
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{obstacle}\n".encode()
        return HTTPStatus.NOT_FOUND, _TEXT, b"/metrics and /healthz\n"

    def _metrics(self) -> bytes | None:
        assert self._renderer is not None
        samples = self._take()
        text: bytes | None = gevent.with_timeout(
            DISK_PATIENCE_S, self._renderer.apply, self._text_of, (samples,), timeout_value=None
        )
        return text

    def _text_of(self, samples: Samples) -> bytes:
        self._taken = {**samples, **self._add()}
        return generate_latest(self._registry)


class _Handler(WSGIHandler):
    """Ends a connection that is silent, broken or no HTTP without much ado: strangers do not fill the log."""

    socket: socket.socket

    def handle(self) -> None:
        self.socket.settimeout(SILENCE_S)
        try:
            super().handle()
        except OSError as error:
            logger.debug("a connection for metrics ended: %s", error)

    def read_request(self, raw_requestline: str) -> Any:
        try:
            return super().read_request(raw_requestline)
        except OSError as error:
            logger.debug("a request for metrics ended in the middle: %s", error)
            return False

    def log_error(self, msg: str, *arguments: object) -> None:
        logger.debug(msg, *arguments)
