"""Links between processes of one machine: proxies on loopback that can be frozen, cut, slowed or black-holed.

All links of a run are served by one thread. Each direction fails by itself:

    frozen  nothing arrives, and nothing is lost: what was sent arrives once the link is open again
    slow    everything arrives late
    hole    what is sent is lost, and the connections that lost something end when the link is open again
    cut     connections are reset, and new ones are refused (both ways at once)
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Coroutine

_CALL_TIMEOUT_S = 20.0
_CHUNK_BYTES = 65536
_SLOW_S = 0.15


class Mode(enum.StrEnum):
    """What a link does with what is sent over it."""

    OPEN = "open"
    FROZEN = "frozen"
    SLOW = "slow"
    HOLE = "hole"
    CUT = "cut"


class Way(enum.StrEnum):
    """A direction: from the one that connects to the one that listens, or back."""

    FORTH = "forth"
    BACK = "back"


class Link:
    """One address that stands for another; made by `Links.add`."""

    def __init__(self, name: str, target: tuple[str, int], listener: socket.socket, loop: asyncio.AbstractEventLoop):
        self.name = name
        self.target = target
        self.host, self.port = listener.getsockname()[:2]
        self._listener = listener
        self._loop = loop
        self._modes = dict.fromkeys(Way, Mode.OPEN)
        self._changed = asyncio.Condition()
        self._writers: set[asyncio.StreamWriter] = set()
        self._bereft: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where to connect, as host:port."""
        return f"{self.host}:{self.port}"

    def turn(self, mode: Mode, ways: tuple[Way, ...] = tuple(Way)) -> None:
        """Have the link do this in some directions from now on; returns once it does."""
        call_in(self._loop, self._turn(mode, ways))

    async def _turn(self, mode: Mode, ways: tuple[Way, ...]) -> None:
        async with self._changed:
            for way in ways:
                self._modes[way] = mode
            self._changed.notify_all()
        if mode is Mode.CUT:
            self._end(self._writers)
        elif mode is Mode.OPEN:
            self._end(self._bereft)
            self._bereft.clear()

    @staticmethod
    def _end(writers: set[asyncio.StreamWriter]) -> None:
        for writer in list(writers):
            writer.transport.abort()

    async def serve(self) -> None:
        """Begin to accept."""
        self._server = await asyncio.start_server(self._accepted, sock=self._listener)

    async def close(self) -> None:
        """End all connections, and accept no more."""
        if self._server is not None:
            self._server.close()
        await self._turn(Mode.OPEN, tuple(Way))
        self._end(self._writers)

    async def _accepted(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        self._writers.add(near_out)
        far_out: asyncio.StreamWriter | None = None
        try:
            if Mode.CUT in self._modes.values():
                return
            far_in, far_out = await asyncio.open_connection(*self.target)
            self._writers.add(far_out)
            both = [
                asyncio.ensure_future(self._pass_on(near_in, far_out, Way.FORTH, near_out)),
                asyncio.ensure_future(self._pass_on(far_in, near_out, Way.BACK, far_out)),
            ]
            _, running = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for each in running:
                each.cancel()
        except OSError:
            pass  # nobody listens there at the moment
        finally:
            for writer in (near_out, far_out):
                if writer is not None:
                    self._writers.discard(writer)
                    self._bereft.discard(writer)
                    writer.close()

    async def _pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Way, other: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while True:
                received = await source.read(_CHUNK_BYTES)
                if self._modes[way] is Mode.FROZEN or (not received and self._modes[way] is Mode.HOLE):
                    async with self._changed:
                        await self._changed.wait_for(lambda: self._modes[way] in {Mode.OPEN, Mode.SLOW, Mode.CUT})
                if not received:
                    return
                if self._modes[way] is Mode.HOLE:
                    self._bereft |= {sink, other}
                    continue
                if self._modes[way] is Mode.SLOW:
                    await asyncio.sleep(_SLOW_S)
                sink.write(received)
                await sink.drain()


class Links:
    """All links of a run; a context manager, which ends them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self.every: dict[str, Link] = {}

    def add(self, name: str, target: tuple[str, int], *, host: str = "127.0.0.1", port: int = 0) -> Link:
        """Make a link to a target, or return the one of this name if it leads there and listens there."""
        known = self.every.get(name)
        if known is not None:
            if known.target == target and (known.host, port or known.port) == (host, known.port):
                return known
            call_in(self._loop, known.close())
        listener = socket.create_server((host, port))
        link = self.every[name] = Link(name, target, listener, self._loop)
        call_in(self._loop, link.serve())
        return link

    def open_all(self) -> None:
        """Heal every link."""
        for link in self.every.values():
            link.turn(Mode.OPEN)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for link in self.every.values():
            call_in(self._loop, link.close())
        call_in(self._loop, _cancel_the_rest())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_TIMEOUT_S)
        self._loop.close()


async def _cancel_the_rest() -> None:
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def call_in(loop: asyncio.AbstractEventLoop, call: Coroutine[object, object, None]) -> None:
    """Run a coroutine in the links' thread and wait for its end."""
    asyncio.run_coroutine_threadsafe(call, loop).result(_CALL_TIMEOUT_S)
