"""The program behind `links`: proxies on loopback, all served by one thread, and told by standard input what to do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any, Self

import psutil

from integration.chaos.links import Mode, Way

if TYPE_CHECKING:
    from collections.abc import Coroutine

_CALL_TIMEOUT_S = 20.0
_CHUNK_BYTES = 65536
_SLOW_S = 0.15


class Proxy:
    """One address that stands for another; made by `Proxies.add`."""

    def __init__(self, name: str, target: tuple[str, int], listener: socket.socket, loop: asyncio.AbstractEventLoop):
        self.name = name
        self.target = target
        self.host, self.port = listener.getsockname()[:2]
        self._listener = listener
        self._loop = loop
        self._modes = dict.fromkeys(Way, Mode.OPEN)
        self._changed = asyncio.Condition()
        self._only_pid: int | None = None
        self._concerned: set[int] = set()  # the ports that this process connected from
        self._writers: dict[asyncio.StreamWriter, int] = {}  # with the port that the client connected from
        self._bereft: dict[asyncio.StreamWriter, int] = {}
        self._server: asyncio.Server | None = None

    def turn(self, mode: Mode, ways: tuple[Way, ...] = tuple(Way), *, only_pid: int | None = None) -> None:
        """Have it do this in some directions from now on, to all or to one process; returns once it does."""
        call_in(self._loop, self._turn(mode, ways, only_pid))

    async def _turn(self, mode: Mode, ways: tuple[Way, ...], only_pid: int | None = None) -> None:
        concerned = await _ports_of(only_pid)
        async with self._changed:
            self._only_pid, self._concerned = only_pid, concerned
            for way in ways:
                self._modes[way] = mode
            self._changed.notify_all()
        if mode is Mode.CUT:
            self._end(self._writers)
        elif mode is Mode.OPEN:
            self._end(self._bereft)

    def _end(self, writers: dict[asyncio.StreamWriter, int]) -> None:
        for writer, peer in list(writers.items()):
            if self._is_concerned(peer):
                writer.transport.abort()

    def _is_concerned(self, peer: int) -> bool:
        """Say whether the one that connected from this port suffers from what the link does."""
        return self._only_pid is None or peer in self._concerned

    def _mode(self, way: Way, peer: int) -> Mode:
        mode = self._modes[way]
        return mode if mode is Mode.OPEN or self._is_concerned(peer) else Mode.OPEN

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
        name = near_out.get_extra_info("peername")
        self._writers[near_out] = peer = int(name[1]) if name else 0  # gone already
        far_out: asyncio.StreamWriter | None = None
        try:
            ports = await _ports_of(self._only_pid)
            self._concerned |= ports
            if self._mode(Way.FORTH, peer) is Mode.CUT:
                return
            far_in, far_out = await asyncio.open_connection(*self.target)
            self._writers[far_out] = peer
            both = [
                asyncio.ensure_future(self._pass_on(near_in, far_out, Way.FORTH, peer)),
                asyncio.ensure_future(self._pass_on(far_in, near_out, Way.BACK, peer)),
            ]
            _, running = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for each in running:
                each.cancel()
        except OSError:
            pass  # nobody listens there at the moment
        finally:
            for writer in (near_out, far_out):
                if writer is not None:
                    self._writers.pop(writer, None)
                    self._bereft.pop(writer, None)
                    writer.close()

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Way, peer: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                received = await source.read(_CHUNK_BYTES)
                mode = await self._await_passable(way, peer, is_end=not received)
                if not received:
                    return
                if mode is Mode.HOLE:
                    self._bereft[sink] = peer
                    continue
                if mode is Mode.SLOW:
                    await asyncio.sleep(_SLOW_S)
                sink.write(received)
                await sink.drain()

    async def _await_passable(self, way: Way, peer: int, *, is_end: bool) -> Mode:
        """Wait until something may arrive, or the end of a connection; return how."""
        waits_in = {Mode.FROZEN, Mode.HOLE} if is_end else {Mode.FROZEN}
        async with self._changed:
            await self._changed.wait_for(lambda: self._mode(way, peer) not in waits_in)
        return self._mode(way, peer)


class Proxies:
    """All proxies of a run; a context manager, which ends them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self.every: dict[str, Proxy] = {}

    def add(self, name: str, target: tuple[str, int], *, host: str = "127.0.0.1", port: int = 0) -> Proxy:
        """Make a proxy to a target, or return the one of this name if it leads there and listens there."""
        known = self.every.get(name)
        if known is not None:
            if known.target == target and (known.host, port or known.port) == (host, known.port):
                return known
            call_in(self._loop, known.close())
        listener = socket.create_server((host, port))
        link = self.every[name] = Proxy(name, target, listener, self._loop)
        call_in(self._loop, link.serve())
        return link

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


async def _ports_of(pid: int | None) -> set[int]:
    """Return the ports of a process, in a thread: on a machine with many connections it takes a while to find them."""
    if pid is None:
        return set()

    def find() -> set[int]:
        with contextlib.suppress(psutil.Error):
            return {each.laddr.port for each in psutil.Process(pid).net_connections("tcp")}
        return set()

    return await asyncio.to_thread(find)


async def _cancel_the_rest() -> None:
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def call_in(loop: asyncio.AbstractEventLoop, call: Coroutine[object, object, None]) -> None:
    """Run a coroutine in the links' thread and wait for its end."""
    asyncio.run_coroutine_threadsafe(call, loop).result(_CALL_TIMEOUT_S)


def main() -> None:
    """Do what each line of standard input says, and answer each with a line; until the end of the input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this ends it
    with Proxies() as proxies:
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                answer = _do(proxies, **asked)
            except (OSError, TimeoutError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _do(proxies: Proxies, do: str, name: str, **rest: Any) -> dict[str, object]:
    if do == "add":
        proxy = proxies.add(name, tuple(rest["target"]), host=rest["host"], port=rest["port"])
        return {"host": proxy.host, "port": proxy.port}
    ways = tuple(Way(way) for way in rest["ways"])
    proxies.every[name].turn(Mode(rest["mode"]), ways, only_pid=rest["only_pid"])
    return {}


if __name__ == "__main__":
    main()
