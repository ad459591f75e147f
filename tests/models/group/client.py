"""A member's ZooKeeper client: what shipped code calls of `zk.client.ZkClient`, over the ensemble in memory.

What it sends waits until the model has the server answer it. The link may be frozen in either direction; then what is
under way waits in it.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kazoo import exceptions as kazoo_errors

from tests.models.group.ensemble import LEADER, SESSION_S, Request
from tests.models.group.tasks import TaskEvent
from zk.client import CallRefused
from zk.security import Security

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.models.group.ensemble import Ensemble
    from tests.models.group.tasks import Tasks


class Result:
    """The answer to one request, some time."""

    def __init__(self, tasks: Tasks, request: Request, watch: Callable[[object], object] | None) -> None:
        self.request = request
        self.watch = watch
        self._tasks = tasks
        self._is_ready = False
        self._outcome: Any = None

    def set(self, outcome: Any) -> None:
        self._is_ready, self._outcome = True, outcome

    def ready(self) -> bool:
        return self._is_ready

    def wait(self, timeout_s: float) -> bool:
        return self._tasks.wait(self.ready, timeout_s)

    def get(self) -> Any:
        shown = self._outcome
        self._tasks.note(type(shown).__name__ if isinstance(shown, Exception) else repr(shown))
        if isinstance(shown, Exception):
            raise shown
        return shown


class _Handler:
    """kazoo's handler, as far as `SessionEvents` needs it."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    def event_object(self) -> TaskEvent:
        return TaskEvent(self._tasks)


class ModelClient:
    """One client. `is_stopped`: its process stands still, so it neither pings its server nor reads its answers."""

    def __init__(self, ensemble: Ensemble, tasks: Tasks, server: int) -> None:
        self.ensemble = ensemble
        self.clock = ensemble.clock
        self.server = server
        self.handler = _Handler(tasks)
        self.connect_asked = (0, 0.0)
        self.session_timeout_ms = SESSION_S * 1000
        self.security = Security()
        self.is_connected = False
        self.is_closed = False
        self.is_frozen_out = False  # nothing reaches the server
        self.is_frozen_in = False  # nothing reaches the client
        self.is_stopped = False
        self.last_session: int | None = None
        self.sessions: set[int] = set()  # all it ever had
        self.delays_callbacks = False
        self.outbox: deque[Result] = deque()  # sent, not answered
        self.inbox: deque[tuple[Result | tuple[str, str], Any]] = deque()  # answers and notices under way
        self.callbacks: deque[Callable[[object], object]] = deque()
        self.watches: dict[tuple[str, str], dict[Callable[[object], object], None]] = {}
        self._listeners: list[Callable[[object], object]] = []
        self._wanted: int | None = None
        self._tasks = tasks

    # What shipped code calls -----------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int | None:
        return self.last_session if self.is_connected else None

    @contextmanager
    def within_session(self, session_id: int | None) -> Iterator[None]:
        before, self._wanted = self._wanted, session_id
        try:
            yield
        finally:
            self._wanted = before

    def add_listener(self, listener: Callable[[object], object]) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[object], object]) -> None:
        self._listeners.remove(listener)

    def get_async(self, path: str, watch: Callable[[object], object] | None = None) -> Result:
        return self._send("get", path, watch=watch)

    def exists_async(self, path: str, watch: Callable[[object], object] | None = None) -> Result:
        return self._send("exists", path, watch=watch)

    def get_children_async(
        self, path: str, watch: Callable[[object], object] | None = None, include_data: bool = False
    ) -> Result:
        assert include_data
        return self._send("children", path, watch=watch)

    def create_async(self, path: str, data: bytes | None, ephemeral: bool = False) -> Result:
        return self._send("create", path, data, is_ephemeral=ephemeral)

    def set_async(self, path: str, data: bytes | None, version: int = -1) -> Result:
        return self._send("set", path, data, version)

    def delete_async(self, path: str, version: int = -1) -> Result:
        return self._send("delete", path, version=version)

    def sync_async(self, path: str) -> Result:
        return self._send("sync", path)

    def _send(
        self,
        kind: str,
        path: str,
        data: bytes | None = None,
        version: int = -1,
        *,
        is_ephemeral: bool = False,
        watch: Callable[[object], object] | None = None,
    ) -> Result:
        request = Request(kind, path, self.last_session or 0, data, version, is_ephemeral, watch is not None)
        result = Result(self._tasks, request, watch)
        if not self.is_connected or self._wanted not in (None, self.last_session):
            result.set(CallRefused("not connected, or in another session"))
        else:
            self.outbox.append(result)
        return result

    # What the model does ---------------------------------------------------------------------------------------------

    @property
    def can_be_served(self) -> bool:
        """Whether its server could answer its next request now."""
        return (
            bool(self.outbox)
            and not self.is_frozen_out
            and self.ensemble.can_answer(self.server, self.outbox[0].request)
        )

    def serve(self) -> None:
        """Have the server answer the next request."""
        result = self.outbox.popleft()
        outcome = self.ensemble.answer(self, self.server, result.request)  # what watches tell goes before it
        if self.is_connected:
            self.inbox.append((result, outcome))
            self.receive()
        else:
            result.set(kazoo_errors.ConnectionLoss())

    def notice(self, kind: str, path: str) -> None:
        """Tell of a watch that fired."""
        self.inbox.append(((kind, path), None))
        self.receive()

    def receive(self) -> None:
        """Take what has arrived, if anything gets through."""
        while self.inbox and not self.is_frozen_in and not self.is_stopped:
            what, outcome = self.inbox.popleft()
            if isinstance(what, Result):
                what.set(outcome)
                if what.watch is not None and not isinstance(outcome, Exception):
                    kind = "children" if what.request.kind == "children" else "data"
                    self.watches.setdefault((kind, what.request.path), {})[what.watch] = None
            else:
                self.callbacks.extend(self.watches.pop(what, {}))
        if not self.delays_callbacks:
            self.call_back()

    def call_back(self) -> None:
        """Call the watches that fired."""
        while self.callbacks:
            self.callbacks.popleft()(None)

    def tick(self) -> None:
        """Ping the server, as kazoo does by itself."""
        if self.is_connected and not self.is_frozen_out and not self.is_stopped and self.last_session is not None:
            self.ensemble.touch(self.server, self.last_session)

    def freeze(self, *, inward_only: bool) -> None:
        """Let nothing through from the server, nor to it; what is under way waits."""
        self.is_frozen_in = True
        self.is_frozen_out = not inward_only

    def thaw(self, *, inward_only: bool) -> None:
        """Let answers through again, or everything."""
        self.is_frozen_in = False
        self.is_frozen_out = self.is_frozen_out and inward_only
        self.receive()

    def lose_answers(self) -> None:
        """Lose the connection after all that was sent was carried out."""
        self.is_frozen_in = True
        while self.can_be_served:
            self.serve()
        self.disconnect()

    def disconnect(self) -> None:
        """Lose the connection: what was sent and not answered fails, and every watch is called."""
        if not self.is_connected:
            return
        self.is_connected = False
        assert self.last_session is not None
        self.ensemble.servers[self.server].forget(self, self.last_session)
        for what in (*(what for what, _ in self.inbox), *self.outbox):
            if isinstance(what, Result):
                what.set(kazoo_errors.ConnectionLoss())
        self.inbox.clear()
        self.outbox.clear()
        for watches in self.watches.values():
            self.callbacks.extend(watches)
        self.watches.clear()
        if not self.delays_callbacks:
            self.call_back()
        self._tell_listeners()

    def connect(self, server: int) -> None:
        """Connect to a server, or to the leader where that is cut off; in the same session if it lives."""
        self.server = LEADER if self.ensemble.servers[server].is_cut else server
        self.is_frozen_in = self.is_frozen_out = False
        self.last_session = self.ensemble.connect(self, self.server, self.last_session)
        self.sessions.add(self.last_session)
        self.connect_asked = (self.last_session, self.clock.now_s)
        self.is_connected = True
        self._tell_listeners()

    def close(self) -> None:
        """End the session as a client that is shut down does, or a process that is killed some time later."""
        self.is_closed = True
        session_id = self.last_session
        self.disconnect()
        if session_id is not None:
            self.ensemble.end(session_id)

    def _tell_listeners(self) -> None:
        for listener in list(self._listeners):
            listener(None)
