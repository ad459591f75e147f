"""Pipelined calls on znodes, without a server."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from zk.errors import ConnectionLost
from zk.nodes import Nodes

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Unanswered:
    """The result of a request to a server that keeps silent."""

    def __init__(self, waits: list[float]) -> None:
        self._waits = waits

    def ready(self) -> bool:
        return False

    def wait(self, timeout_s: float) -> bool:
        self._waits.append(timeout_s)
        return False


class SilentClient:
    session_timeout_ms = 6000

    def __init__(self) -> None:
        self.waits: list[float] = []

    def within_session(self, session_id: int | None) -> AbstractContextManager[None]:
        return nullcontext()

    def create_async(self, path: str, data: bytes, ephemeral: bool) -> Unanswered:
        return Unanswered(self.waits)

    def transaction(self) -> SilentClient:
        return self

    def create(self, path: str, data: bytes, ephemeral: bool) -> None:
        assert path

    def commit_async(self) -> Unanswered:
        return Unanswered(self.waits)


def test_many_requests_to_a_silent_server_wait_once() -> None:
    """Not each of them for a session timeout; none of what may have been sent is said not to have been."""
    client = SilentClient()
    outcomes = Nodes(client).create_many({f"/{number}": b"" for number in range(1000)})  # type: ignore[arg-type]
    assert len(outcomes) == 1000
    assert all(isinstance(outcome, ConnectionLost) for outcome in outcomes.values())
    assert client.waits == [6]
