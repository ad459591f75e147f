"""The root of all errors, and those of the coordination layer; kazoo's own exceptions never leave `zk`."""

# ruff: noqa: N818 - each is named for what happened

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def session_name(session_id: int) -> str:
    """Write a session id as ZooKeeper's own log does: unsigned and in hex."""
    return f"{session_id & 0xFFFF_FFFF_FFFF_FFFF:#x}"


def data_text(data: bytes | None) -> str:
    """Show a znode's data in an error: `<null>` or its text, never failing on bytes that are not UTF-8."""
    return "<null>" if data is None else data.decode("utf-8", "backslashreplace")


class KafkaError(Exception):
    """Is the base of all errors that `kafka2011` raises on purpose: what an application may catch."""


class ZkError(KafkaError):
    """Is the base of the errors that concern ZooKeeper."""


class InvalidName(ZkError, ValueError):
    """A name that cannot be one component of a znode path."""


class MalformedNode(ZkError):
    """A znode whose name or text is not what Kafka 0.7 writes there."""

    def __init__(self, path: str, text: str | bytes | None, why: str) -> None:
        shown = text if isinstance(text, str) else data_text(text)
        super().__init__(f"{path}: {why}: {shown[:200]}")
        self.path = path
        self.text = text
        self.why = why


class ZkUnavailable(ZkError):
    """Means that ZooKeeper did not answer. A write may have happened or not, unless the subclass says more."""


class NotConnected(ZkUnavailable):
    """The call was refused before it was sent: not connected, or no longer in the wanted session. Nothing happened."""


class ConnectionLost(ZkUnavailable):
    """The connection went, or the answer did not come in time, after the call was handed over."""


class SessionExpired(ZkUnavailable):
    """The session ended: its ephemeral nodes are gone."""


class NoNode(ZkError):
    """The znode, or the parent of one to be created, does not exist."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: no such znode")
        self.path = path


class NodeExists(ZkError):
    """The znode to be created exists already."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: exists already")
        self.path = path


class NodeNotEmpty(ZkError):
    """The znode to be deleted has children."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: has children")
        self.path = path


class VersionConflict(ZkError):
    """A conditional write found a different version: somebody else wrote, deleted or created the znode meanwhile."""

    def __init__(self, path: str, expected: int | None) -> None:
        super().__init__(f"{path}: no longer " + ("absent" if expected is None else f"at version {expected}"))
        self.path = path
        self.expected = expected


class NotAllowed(ZkError):
    """A znode's ACL does not let us do that: no user was given, or another one's made it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: ZooKeeper does not allow it (zk.connect names a user by ?security=FILE)")
        self.path = path


class NodeHeld(ZkError):
    """An ephemeral znode that belongs to another session, which its text names."""

    def __init__(self, path: str, data: bytes | None, session_id: int) -> None:
        kind = f"session {session_name(session_id)}" if session_id else "a persistent znode"
        super().__init__(f"{path} is held by {kind}: {data_text(data)}")
        self.path = path
        self.data = data
        self.session_id = session_id


class HasReplicas(ZkError):
    """A broker that is no replica wants an id which has replicas: it would serve what they do not have."""

    def __init__(self, path: str, broker_id: int) -> None:
        super().__init__(f"{path}: broker {broker_id} has replicas, so each of its processes needs a replica.name")
        self.path = path


class GroupInUse(ZkError):
    """Means that a group has members, so it cannot be deleted and its offsets cannot be changed."""

    def __init__(self, group: str, members: list[str]) -> None:
        super().__init__(f"group {group} has members: {', '.join(members)}")
        self.group = group
        self.members = members


class ChildStartError(ZkError):
    """A child process could not be started."""


class LocalZooKeeperError(ZkError):
    """The local ZooKeeper server could not be started, or died."""


def raise_first(outcomes: Iterable[object], but: type[KafkaError] | tuple[type[KafkaError], ...] = ()) -> None:
    """Raise the first error among the outcomes of many calls, except for some."""
    for outcome in outcomes:
        if isinstance(outcome, KafkaError) and not isinstance(outcome, but):
            raise outcome
