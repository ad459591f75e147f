"""A ZooKeeper for the stages about groups, and what they look at in it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from kafka2011.lab.errors import SkippedError, WrongError
from zk.errors import ZkError
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.lab.program import ProgramRun

SOON_S = 8.0
"""How long a group may take to come to rest."""
_POLL_S = 0.02
GROUP = "g"
TOPIC = "views"


class Registries:
    """The registries of one group and one topic, as the lab reads and writes them."""

    def __init__(self, connect_string: str) -> None:
        self.connect_string = connect_string
        self._client = _connected(connect_string)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Provide a session of its own, whose ephemeral nodes go when it ends."""
        client = _connected(self.connect_string)
        try:
            yield Session(client)
        finally:
            _close(client)

    def close(self) -> None:
        """Close the session."""
        _close(self._client)

    def read(self, path: str) -> tuple[bytes, Any] | None:
        """Return data and state of a node, or None if it does not exist."""
        try:
            data, state = self._client.get(path)
        except NoNodeError:
            return None
        return data or b"", state

    def names(self, path: str) -> list[str]:
        """Return the nodes below a path; none if it does not exist."""
        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []

    def put(self, path: str, data: str) -> None:
        """Write a persistent node, which may exist."""
        self._client.ensure_path(path)
        self._client.set(path, data.encode())

    def delete(self, path: str) -> None:
        """Delete a node, which may not exist."""
        self._client.delete(path, recursive=True)

    def member(self, member: str) -> tuple[bytes, Any] | None:
        """Return the node of a member in the consumer registry."""
        return self.read(f"/consumers/{GROUP}/ids/{member}")

    def offset(self, partition: str) -> tuple[bytes, Any] | None:
        """Return the node of a partition in the offset registry."""
        return self.read(offset_path(partition))

    def owners(self) -> dict[str, str]:
        """Return the owner of each partition."""
        found = {name: self.read(owner_path(name)) for name in self.names(f"/consumers/{GROUP}/owners/{TOPIC}")}
        return {name: node[0].decode("utf-8", "replace") for name, node in found.items() if node is not None}

    def expect_owners(self, wanted: dict[str, str], run: ProgramRun, timeout_s: float = SOON_S) -> None:
        """Wait until the partitions have these owners. Raises WrongError."""

        def text(owners: dict[str, str]) -> str:
            return ", ".join(f"{name}={owner}" for name, owner in sorted(owners.items())) or "nothing"

        self.wait(
            lambda: self.owners() == wanted,
            lambda: f"/consumers/{GROUP}/owners/{TOPIC} should have {text(wanted)}. It has {text(self.owners())}.",
            run,
            timeout_s,
        )

    def wait(
        self, condition: Callable[[], bool], what: Callable[[], str], run: ProgramRun, timeout_s: float = SOON_S
    ) -> None:
        """Wait until a condition holds. Raises WrongError, with `what` for a text, or if the program has ended."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if not run.running or time.monotonic() > deadline_s:
                raise WrongError(run.describe_end() or what(), note="" if not run.running else run.last_words())
            time.sleep(_POLL_S)

    def stays(self, condition: Callable[[], bool], what: Callable[[], str], seconds: float) -> None:
        """Watch that a condition holds for a while. Raises WrongError."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            if not condition():
                raise WrongError(what())
            time.sleep(_POLL_S)


class Session:
    """A session that holds ephemeral nodes: a broker, or another member of the group."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def create(self, path: str, data: str) -> bool:
        """Create an ephemeral node, and say whether it was created: it may exist."""
        try:
            self._client.create(path, data.encode(), ephemeral=True, makepath=True)
        except NodeExistsError:
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete a node, which may not exist."""
        self._client.delete(path, recursive=True)

    def register_broker(self, broker_id: int, port: int, partitions: int) -> None:
        """Register a broker as Kafka 0.7 does."""
        self.create(f"/brokers/ids/{broker_id}", f"127.0.0.1-1307836800000:127.0.0.1:{port}")
        self.create(f"/brokers/topics/{TOPIC}/{broker_id}", str(partitions))

    def remove_broker(self, broker_id: int) -> None:
        """Remove what `register_broker` has written."""
        self.delete(f"/brokers/topics/{TOPIC}/{broker_id}")
        self.delete(f"/brokers/ids/{broker_id}")

    def join(self, member: str, streams: int) -> None:
        """Register a member of the group."""
        self.create(f"/consumers/{GROUP}/ids/{member}", f'{{ "{TOPIC}": {streams} }}')

    def leave(self, member: str) -> None:
        """Remove a member's registration."""
        self.delete(f"/consumers/{GROUP}/ids/{member}")


def owner_path(partition: str) -> str:
    """Return the path of a partition in the ownership registry."""
    return f"/consumers/{GROUP}/owners/{TOPIC}/{partition}"


def offset_path(partition: str) -> str:
    """Return the path of a partition in the offset registry."""
    return f"/consumers/{GROUP}/offsets/{TOPIC}/{partition}"


@contextmanager
def registries() -> Iterator[Registries]:
    """Provide a ZooKeeper of this machine. Raises SkippedError where none can be started."""
    server = LocalZooKeeper()
    try:
        try:
            server.start()
        except ZkError as error:
            raise SkippedError(f"no ZooKeeper can be started on this machine: {error}") from error
        client = _connected(server.connect_string)
        client.ensure_path("/lab")
        _close(client)
        found = Registries(f"{server.connect_string}/lab")
        try:
            yield found
        finally:
            found.close()
    finally:
        server.close()


def _connected(connect_string: str) -> KazooClient:
    client = KazooClient(hosts=connect_string, timeout=10.0)
    client.start(timeout=15)
    return client


def _close(client: KazooClient) -> None:
    client.stop()
    client.close()
