"""What was read from a registry and is read again only once it has changed, as a watch or a comparison says."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.consumer.group_registries import Wake
    from zk.nodes import Watch

    ListNames = Callable[[Watch], list[str]]
    ReadTexts = Callable[[Iterable[str], Callable[[str], Watch]], dict[str, str]]

Value = TypeVar("Value")


def nobody() -> None:
    """Wake nobody."""


class CachedNodes(Generic[Value]):
    """What was read from a registry. It is read again when its watch (this object) or a comparison says so."""

    def __init__(self, path: str, read: Callable[[Watch], Value]) -> None:
        self.path = path
        self._read = read
        self._value: Value | None = None
        self.is_current = False
        self.changes: int | None = None  # of the znode's children, as they were counted last, before the reading
        self._wake: Wake = nobody

    def value(self, wake: Wake) -> Value:
        """Return it as last read, or read it."""
        if self.begin(wake):
            try:
                self.end(self._read(self))
            except BaseException:
                self.fail()
                raise
        assert self._value is not None
        return self._value

    def begin(self, wake: Wake) -> bool:
        """Say whether it has to be read; then `end` or `fail` must follow."""
        self._wake = wake
        if self.is_current and self._value is not None:
            return False
        self.is_current = True  # before it is read: a watch that fires after that must not be forgotten
        return True

    def end(self, value: Value) -> None:
        """Note what was read."""
        self._value = value

    def fail(self) -> None:
        """Note that it could not be read."""
        self.is_current = False

    def compare(self, changes: int | None) -> bool:
        """Have it read again if its count of changes differs from last time; say whether no watch had said so."""
        is_news = self.is_current and changes != self.changes
        if is_news:
            self.is_current = False
        self.changes = changes
        return is_news

    def __call__(self, _event: object) -> None:
        """Note that it has changed, as a watch."""
        self.is_current = False
        self._wake()


class KnownTexts(CachedNodes[dict[str, str]]):
    """The texts of the znodes below one: only those that are new or have changed are read, not all of them again."""

    def __init__(self, path: str, names: ListNames, texts: ReadTexts) -> None:
        super().__init__(path, self._read_new)
        self._names = names
        self._texts = texts
        self.texts: dict[str, str | None] = {}  # None while it is read, absent when it has changed
        self._lock = threading.Lock()  # kazoo's thread forgets while ours reads

    def compare(self, changes: int | None) -> bool:
        """Have all of it read again if its count of changes differs from last time."""
        is_news = super().compare(changes)
        if is_news:
            with self._lock:
                self.texts.clear()
        return is_news

    def _read_new(self, watch: Watch) -> dict[str, str]:
        names = self._names(watch)
        with self._lock:
            known = {name: text for name in names if (text := self.texts.get(name)) is not None}
            unknown = [name for name in names if name not in known]
            # Noted before they are read: what a watch says while they are is not to be forgotten.
            self.texts = {**known, **dict.fromkeys(unknown)}
        read = self._texts(unknown, lambda name: _TextWatch(self._forget, name, watch))
        with self._lock:
            self.texts.update((name, text) for name, text in read.items() if name in self.texts)
        return dict(sorted({**known, **read}.items()))

    def _forget(self, name: str) -> None:
        with self._lock:
            self.texts.pop(name, None)


class _TextWatch:
    """The watch of one such znode: its text is no longer known."""

    __slots__ = ("_forget", "_name", "_watch")

    def __init__(self, forget: Callable[[str], None], name: str, watch: Watch) -> None:
        self._forget = forget
        self._name = name
        self._watch = watch

    def __call__(self, event: object) -> None:
        self._forget(self._name)
        self._watch(event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TextWatch) and (self._name, self._watch) == (other._name, other._watch)

    def __hash__(self) -> int:
        return hash(self._name)
