"""What is known of the znodes under one, so that a change costs one request, not one for each of them.

A broker that goes takes its node from every topic, and everybody who follows a topic looks. The list of names says
which have gone or come; the other nodes are as they were, unless their own watches have told otherwise.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kazoo.protocol.states import EventType

from zk import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zk.nodes import Listed, Node, Nodes


class KnownNodes:
    """The nodes under a path as they were read last; a watch of all of them, which calls `wake` when one changes."""

    def __init__(self, path: str, wake: Callable[[], object]) -> None:
        self.path = path
        self.wake = wake
        self.is_current = False
        self._names: frozenset[str] = frozenset()
        self.changes = 0  # of the list, until it had these names
        self._nodes: dict[str, Node | None] = {}  # as they were read last; None before that
        self.unread: set[str] = set()  # those that have changed since
        self._reading: list[str] = []
        self._lock = threading.Lock()  # kazoo's thread forgets while another reads

    @property
    def nodes(self) -> list[Node]:
        """Return them, sorted by name."""
        return [node for node in self._nodes.values() if node is not None]

    def compare(self, changes: int | None) -> None:
        """Have the list read again if it has changed more or less often by now."""
        if (changes or 0) != self.changes:
            self.is_current = False

    def forget_all(self) -> None:
        """Have everything read again."""
        with self._lock:
            self.unread.update(self._nodes)
        self.is_current = False

    def begin(self) -> bool:
        """Say whether something has to be read; then `fail` must follow if it cannot be."""
        if self.is_current:
            return False
        self.is_current = True  # before it is read: a watch that fires after that must not be forgotten
        return True

    def fail(self) -> None:
        """Note that it could not be read."""
        with self._lock:
            self.unread.update(self._reading)
        self.is_current = False

    def note_list(self, listed: Listed) -> list[str]:
        """Note which nodes there are, and return the names of those that have to be read."""
        names, changes = frozenset(listed.names), listed.changes or 0
        # Each node that was made or deleted is one change. With more of them, some were made anew, nobody knows which.
        is_explained = len(names ^ self._names) == changes - self.changes
        with self._lock:
            self._nodes = {name: self._nodes.get(name) for name in listed.names}
            self._names, self.changes = names, changes
            self._reading = [
                name for name, node in self._nodes.items() if node is None or not is_explained or name in self.unread
            ]
            self.unread.clear()  # what changes from here on is read once more
            return self._reading

    def note(self, name: str, node: Node) -> None:
        """Note a node that was read."""
        with self._lock:
            if name in self._nodes:
                self._nodes[name] = node

    def forget(self, name: str) -> None:
        """Have a node read again; until then it is as it was read last."""
        with self._lock:
            self.unread.add(name)

    def __call__(self, _event: object) -> None:
        """Note that something has changed, as a watch."""
        self.is_current = False
        self.wake()


class KnownTopic(KnownNodes):
    """The brokers of a topic."""

    def __init__(self, topic: str, wake: Callable[[], object]) -> None:
        super().__init__(paths.topic(topic), wake)
        self.topic = topic


class NodeWatch:
    """The watch of one node."""

    __slots__ = ("_known", "_name")

    def __init__(self, known: KnownNodes, name: str) -> None:
        self._known = known
        self._name = name

    def note(self, node: Node) -> None:
        """Note what was read."""
        self._known.note(self._name, node)

    def __call__(self, event: object) -> None:
        """Forget what was read of the node, since it has changed."""
        self._known.forget(self._name)
        if getattr(event, "type", None) != EventType.DELETED:  # that the list tells, which is watched too
            self._known(event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeWatch) and (self._known, self._name) == (other._known, other._name)

    def __hash__(self) -> int:
        return hash(self._name)


def read_again(nodes: Nodes, wanted: Iterable[KnownNodes], *, is_watched: bool = True) -> None:
    """Read what has changed, together; unless it is watched, nobody will tell of changes. Raises ZkUnavailable."""
    unread = {known.path: known for known in wanted if known.begin()}
    try:
        lists = nodes.list_many(unread, unread.__getitem__) if is_watched else nodes.list_many(unread)
        missing = {
            paths.child(path, name): NodeWatch(unread[path], name)
            for path, listed in lists.items()
            for name in unread[path].note_list(listed)
        }
        read = nodes.get_many(missing, missing.__getitem__) if is_watched else nodes.get_many(missing)
        for path, node in read.items():
            missing[path].note(node)
    except BaseException:
        for known in unread.values():
            known.fail()
        raise
