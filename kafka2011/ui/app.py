"""What the console answers to browsers: the page's files, the newest picture as it changes, and bounded reads.

Everything that comes from a cluster is JSON here, and the page makes text of it, never markup. Where changes are
allowed, only the page itself can ask for them: no page of a stranger's, in the same browser.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kafka2011.errors import KafkaError
from kafka2011.ui.doors import principal_in, who_asks
from kafka2011.ui.sampler import Focus, TooManyViewersError, Viewer
from zk.cluster import TopicPartition
from zk.errors import MalformedNode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from kafka2011.ui.sampler import Sampler

    Ask = Callable[[Mapping[str, str]], dict[str, Any]]
    MaySee = Callable[[str, str], bool]
    """Says whether a principal may see the messages of a topic."""
    Change = Callable[[Mapping[str, Any], str], dict[str, Any]]
    """Takes what is asked for and who asks."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
MESSAGES = "messages"
"""The question whose answer has messages in it."""
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_BEAT_S = 2.0
"""A page that hears nothing for longer knows that it shows what was."""
_PATIENCE_S = 20.0
"""A browser that takes nothing for so long is let go."""
_LEAST_S = 0.2
"""Between two pictures to one browser."""
_MOST_ASKED_BYTES = 1024 * 1024


def make_app(
    sampler: Sampler,
    asked: Mapping[str, Ask],
    clock_ms: Callable[[], int],
    names: Collection[str],
    changes: Mapping[str, Change],
    may_see: MaySee,
) -> Starlette:
    """Return the application: the page, `/events`, and `/api/{name}` for each question in `asked` and in `changes`.

    `names` are those by which browsers may ask for it, beside addresses: any other may be a page of a stranger's that
    has its name point here. Questions are answered in threads, a few at a time; they raise KafkaError. Those of
    `changes` are asked by POST, and by the page alone. MESSAGES are answered only to those who `may_see` them.
    """
    answers = _Answers()

    async def events(request: Request) -> Response:
        return _EventStream(sampler, request.query_params, clock_ms, may_change=bool(changes))

    return Starlette(
        routes=[
            *_pages(),
            Route("/events", events),
            *(
                Route(f"/api/{name}", answers.to(ask, may_see if name == MESSAGES else None))
                for name, ask in asked.items()
            ),
            *(Route(f"/api/{name}", answers.to_change(change), methods=["POST"]) for name, change in changes.items()),
        ],
        middleware=[Middleware(_Guard, names={"localhost", *names})],
    )


class _Answers:
    """Answers questions in threads, a few at a time."""

    def __init__(self) -> None:
        self._at_a_time = asyncio.Semaphore(4)

    def to(self, ask: Ask, may_see: MaySee | None) -> Callable[[Request], Awaitable[Response]]:
        """Return what answers a question of anybody's, or, with `may_see`, of those who may see the topic it names."""

        async def answer(request: Request) -> Response:
            topic = request.query_params.get("topic", "")
            if may_see is not None and not may_see(principal_in(request), topic):
                error = f"{principal_in(request)} may not consume topic {topic!r}, and so may not see its messages"
                return JSONResponse({"error": error}, HTTPStatus.FORBIDDEN)
            return await self._answered(lambda: ask(request.query_params))

        return answer

    def to_change(self, change: Change) -> Callable[[Request], Awaitable[Response]]:
        """Return what changes something if the page asks for it."""

        async def answer(request: Request) -> Response:
            if not _is_from_this_page(request):
                return JSONResponse({"error": "changes are made from this console's page"}, HTTPStatus.FORBIDDEN)
            try:
                wanted = await _document(request)
            except ValueError as error:
                return JSONResponse({"error": str(error)}, HTTPStatus.BAD_REQUEST)
            return await self._answered(lambda: change(wanted, who_asks(request)))

        return answer

    async def _answered(self, ask: Callable[[], dict[str, Any]]) -> Response:
        async with self._at_a_time:
            try:
                answer = await asyncio.to_thread(ask)
            except KafkaError as error:
                return JSONResponse({"error": str(error)}, HTTPStatus.BAD_GATEWAY)
            except ValueError as error:
                return JSONResponse({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        return JSONResponse(answer)


def _is_from_this_page(request: Request) -> bool:
    """Say whether a browser sent it for a page of this console.

    Without asking first, a page of a stranger's cannot have JSON sent. Browsers say from which site it comes, or at
    least from which origin.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return False
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    return urlsplit(request.headers.get("origin", "")).netloc == request.headers.get("host", "")


async def _document(request: Request) -> dict[str, Any]:
    """Read the object of JSON that was sent. Raises ValueError."""
    sent = b""
    async for part in request.stream():
        sent += part
        if len(sent) > _MOST_ASKED_BYTES:
            raise ValueError(f"more than {_MOST_ASKED_BYTES} bytes")
    try:
        document = json.loads(sent)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError("no object of JSON")  # noqa: TRY004
    return document


def partition_from(query: Mapping[str, str]) -> TopicPartition:
    """Read the partition that a query names as `topic` and `partition` (broker-number). Raises ValueError."""
    try:
        return TopicPartition.from_znode_name(query.get("topic", ""), query.get("partition", ""))
    except MalformedNode as error:
        raise ValueError(f"partition={query.get('partition', '')}: it is named broker-number, as in 0-1") from error


def _pages() -> list[Route]:
    """Return a route for each file of the page; they are read once."""

    def route(path: str, content: bytes, kind: str) -> Route:
        async def page(_request: Request) -> Response:
            return Response(content, media_type=kind)

        return Route(path, page)

    routes = []
    for file in files("kafka2011.ui").joinpath("page").iterdir():
        kind = _KINDS.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            routes.append(route(path, file.read_bytes(), kind))
    return routes


class _Guard:
    """Refuses who asks by a stranger's name, and adds what keeps a browser from running or loading anything else."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if not _is_address(host) and host.rpartition(":")[0] not in self._names and host not in self._names:
            refused = JSONResponse({"error": f"{host} is no name of this console: see --name"}, HTTPStatus.FORBIDDEN)
            await refused(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def _is_address(host: str) -> bool:
    """Say whether a Host is an address, with a port or without: no name leads to it."""
    name, _, port = host.rpartition(":")
    for text in (host, name if port.isdecimal() else host):
        try:
            ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
        except ValueError:
            continue
        return True
    return False


class _EventStream(Response):
    """Server-Sent Events to one browser. It has no queue: a browser that is slow gets the newest picture, not each."""

    def __init__(
        self, sampler: Sampler, query: Mapping[str, str], clock_ms: Callable[[], int], *, may_change: bool
    ) -> None:
        super().__init__(media_type="text/event-stream")
        self._may_change = may_change
        self._sampler = sampler
        self._query = query
        self._clock_ms = clock_ms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        try:
            where = partition_from(self._query) if "partition" in self._query else None
            viewer = Viewer(Focus(self._query.get("group", ""), where), lambda: loop.call_soon_threadsafe(news.set))
            self._sampler.add(viewer)
        except (ValueError, TooManyViewersError) as error:
            status = HTTPStatus.BAD_REQUEST if isinstance(error, ValueError) else HTTPStatus.SERVICE_UNAVAILABLE
            await JSONResponse({"error": str(error)}, status)(scope, receive, send)
            return
        try:
            await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": self._kind_only()})
            gone = asyncio.ensure_future(_gone(receive))
            try:
                await self._follow(send, news, gone)
            finally:
                gone.cancel()
        except (TimeoutError, OSError):
            pass  # it has gone, or takes nothing
        finally:
            self._sampler.remove(viewer)

    def _kind_only(self) -> list[tuple[bytes, bytes]]:
        return [(name, value) for name, value in self.raw_headers if name != b"content-length"]

    async def _follow(self, send: Send, news: asyncio.Event, gone: asyncio.Future[None]) -> None:
        number, changes = -1, -1
        group = self._query.get("history", "")
        while not (gone.done() or self._sampler.is_releasing):
            news.clear()
            published = self._sampler.published
            said = json.dumps({"at_ms": self._clock_ms(), "trouble": published.trouble, "may_change": self._may_change})
            parts = [f"event: beat\ndata: {said}\n\n"]
            if published.number != number:
                number = published.number
                parts.append(f"event: picture\ndata: {published.text}\n\n")
            if group and self._sampler.history_changes != changes:
                changes = self._sampler.history_changes
                parts.append(f"event: history\ndata: {json.dumps(self._sampler.history(group))}\n\n")
            async with asyncio.timeout(_PATIENCE_S):
                await send({"type": "http.response.body", "body": "".join(parts).encode(), "more_body": True})
            waiting = asyncio.ensure_future(news.wait())
            both: set[asyncio.Future[Any]] = {waiting, gone}
            await asyncio.wait(both, timeout=_BEAT_S, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            await asyncio.wait({gone}, timeout=_LEAST_S)
        if not gone.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
