"""A disk: what it holds for certain, and what it may hold, of files that were written, synced, named and removed.

Until it is synced, every change may or may not survive a power cut: each sector of what was written, each change of a
file's size, each name that was added to or removed from a directory. Changes to one name keep their order, since they
happen in one place; nothing else does. A rename survives as a whole or not at all, as on a file system with a journal.
What a file has room for but was never written reads as zeros.
"""

from __future__ import annotations

import random
from typing import NamedTuple, TypeAlias

SECTOR_BYTES = 16
"""Much smaller than a real one, as are the messages, so that most of them are torn somewhere."""

ROOT = 0

Tree: TypeAlias = "dict[str, bytes | Tree]"
Frozen: TypeAlias = "tuple[tuple[str, bytes | Frozen], ...]"


class Write(NamedTuple):
    """Bytes written within one sector."""

    position: int
    data: bytes


class Resize(NamedTuple):
    """A file cut off, or extended by zeros."""

    size: int


class File(NamedTuple):
    """What is on the disk, what may be, in order, and what processes see."""

    durable: bytes = b""
    pending: tuple[Write | Resize, ...] = ()
    cached: bytes = b""


Naming: TypeAlias = "tuple[tuple[str, int | None], ...]"
"""What one change does to names: gives them numbers, or with None takes them away. All of it survives, or nothing."""


class Directory(NamedTuple):
    """The names on the disk, and the changes that may be there, in order."""

    durable: tuple[tuple[str, int], ...] = ()
    pending: tuple[Naming, ...] = ()

    def cached(self) -> dict[str, int]:
        """Return the names that processes see, with the numbers of what they stand for."""
        names = dict(self.durable)
        for naming in self.pending:
            _name(names, naming)
        return names


class Survival(NamedTuple):
    """How likely it is that a pending change survives a power cut: a name, a sector, a file's size."""

    names: float
    sectors: float
    sizes: float
    seed: int = 0


NOTHING = Survival(0, 0, 0)
EVERYTHING = Survival(1, 1, 1)
NAMES = Survival(1, 0, 0)
NAMES_AND_SIZES = Survival(1, 0, 1)
SOME_SECTORS = Survival(0, 0.6, 0)
SIZES = Survival(0, 0, 1)


class ModelDisk:
    """Files and directories by number; `nodes` are replaced, never changed, so a copy of the table is a snapshot."""

    def __init__(self, nodes: dict[int, File | Directory] | None = None) -> None:
        self.nodes: dict[int, File | Directory] = {ROOT: Directory()} if nodes is None else dict(nodes)

    @classmethod
    def of(cls, tree: Tree) -> ModelDisk:
        """Return a disk that holds this tree for certain."""
        disk = cls()
        disk._add(ROOT, tree)
        return disk

    def _add(self, number: int, tree: Tree) -> None:
        names = []
        for name, content in tree.items():
            child = len(self.nodes)
            names.append((name, child))
            if isinstance(content, bytes):
                self.nodes[child] = File(content, (), content)
            else:
                self.nodes[child] = Directory()
                self._add(child, content)
        self.nodes[number] = Directory(tuple(names))

    def find(self, names: tuple[str, ...]) -> int | None:
        """Return the number of what processes see under this path, or None."""
        number: int | None = ROOT
        for name in names:
            node = self.nodes[number] if number is not None else None
            number = node.cached().get(name) if isinstance(node, Directory) else None
        return number

    def file(self, number: int) -> File:
        """Return a file."""
        node = self.nodes[number]
        assert isinstance(node, File)
        return node

    def make(self, parent: int, name: str, node: File | Directory) -> int:
        """Add a file or directory, whose name is pending, and return its number."""
        number = len(self.nodes)
        self.nodes[number] = node
        self._change_names(parent, ((name, number),))
        return number

    def remove(self, parent: int, name: str) -> None:
        """Take a name away; what it stood for stays for those who have it open."""
        self._change_names(parent, ((name, None),))

    def rename(self, parent: int, name: str, new_name: str) -> None:
        """Give what a name stands for another one in the same directory, in place of what had that."""
        number = self._directory(parent).cached()[name]
        self._change_names(parent, ((name, None), (new_name, number)))

    def _directory(self, number: int) -> Directory:
        directory = self.nodes[number]
        assert isinstance(directory, Directory)
        return directory

    def _change_names(self, parent: int, naming: Naming) -> None:
        directory = self._directory(parent)
        self.nodes[parent] = directory._replace(pending=(*directory.pending, naming))

    def append(self, number: int, data: bytes) -> None:
        """Write behind a file's last byte."""
        file = self.file(number)
        writes = []
        position, end = len(file.cached), len(file.cached) + len(data)
        while position < end:
            stop = min(end, position // SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES)
            start = position - len(file.cached)
            writes.append(Write(position, data[start : start + stop - position]))
            position = stop
        self.nodes[number] = File(file.durable, (*file.pending, *writes), file.cached + data)

    def resize(self, number: int, size: int) -> None:
        """Cut a file off, or extend it."""
        file = self.file(number)
        self.nodes[number] = File(file.durable, (*file.pending, Resize(size)), _resized(file.cached, size))

    def count_pending(self, number: int) -> int:
        """Say how many changes a sync that begins now brings to disk."""
        return len(self.nodes[number].pending)

    def sync(self, number: int, count: int) -> None:
        """Make the first `count` pending changes durable."""
        node = self.nodes[number]
        if isinstance(node, File):
            self.nodes[number] = File(_applied(node.durable, node.pending[:count]), node.pending[count:], node.cached)
        else:
            names = dict(node.durable)
            for naming in node.pending[:count]:
                _name(names, naming)
            self.nodes[number] = Directory(tuple(names.items()), node.pending[count:])

    def fail_sync(self, number: int, count: int, seed: int) -> None:
        """Lose some of a file's first `count` pending writes for good: the cache shows them still, as if written.

        A later sync succeeds, and brings no more than the file's size to disk. Names just stay pending.
        """
        node = self.nodes[number]
        if isinstance(node, File) and count:
            half = Survival(0, 0.5, 0.5, seed)
            durable = _surviving(node._replace(pending=node.pending[:count]), half, random.Random(seed))
            self.nodes[number] = File(durable, (Resize(len(node.cached)), *node.pending[count:]), node.cached)

    def drop_cache(self, number: int) -> bytes:
        """Forget what processes see of a file where it is not pending, and return what they see from now on."""
        file = self.file(number)
        seen = _resized(_applied(file.durable, file.pending), len(file.cached))
        self.nodes[number] = file._replace(cached=seen)
        return seen

    def cached(self) -> Tree:
        """Return what processes see."""
        return self._tree(ROOT, None, random.Random(0))

    def after_power_cut(self, survival: Survival) -> Tree:
        """Return what the disk holds after a power cut."""
        return self._tree(ROOT, survival, random.Random(survival.seed))

    def _tree(self, number: int, survival: Survival | None, draw: random.Random) -> Tree:
        directory = self._directory(number)
        names = directory.cached() if survival is None else _surviving_names(directory, survival, draw)
        tree: Tree = {}
        for name, child in sorted(names.items()):
            node = self.nodes[child]
            if isinstance(node, Directory):
                tree[name] = self._tree(child, survival, draw)
            else:
                tree[name] = node.cached if survival is None else _surviving(node, survival, draw)
        return tree


def frozen(tree: Tree) -> Frozen:
    """Return the same as something that can be in a set."""
    return tuple((name, frozen(content) if isinstance(content, dict) else content) for name, content in tree.items())


def _name(names: dict[str, int], naming: Naming) -> None:
    for name, number in naming:
        if number is None:
            del names[name]
        else:
            names[name] = number


def _surviving_names(directory: Directory, survival: Survival, draw: random.Random) -> dict[str, int]:
    names = dict(directory.durable)
    stuck: set[str] = set()
    for naming in directory.pending:
        if stuck.isdisjoint(name for name, _ in naming) and draw.random() < survival.names:
            _name(names, naming)
        else:
            stuck.update(name for name, _ in naming)
    return names


def _surviving(file: File, survival: Survival, draw: random.Random) -> bytes:
    content = file.durable
    for change in file.pending:
        if draw.random() < (survival.sizes if isinstance(change, Resize) else survival.sectors):
            content = _applied(content, (change,))
    if file.pending and draw.random() < survival.sizes:
        content = _resized(content, len(file.cached))
    return content


def _applied(content: bytes, changes: tuple[Write | Resize, ...]) -> bytes:
    for change in changes:
        if isinstance(change, Resize):
            content = _resized(content, change.size)
        else:
            position, data = change
            content = _resized(content, max(len(content), position))
            content = content[:position] + data + content[position + len(data) :]
    return content


def _resized(content: bytes, size: int) -> bytes:
    return content[:size].ljust(size, b"\0")
