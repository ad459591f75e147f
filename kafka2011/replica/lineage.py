"""Which states of a broker id's replicas come after which: how ZooKeeper is known to have gone back to an older copy.

The number of an epoch and the znode's version do not tell that alone: who leads from an older state soon has higher
ones. So each epoch has a random draw, and the state says which version began each of the newest epochs.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_Key = TypeVar("_Key")

MOST_BEGUN = 16
"""The most epochs that the state names. Of an older one it tells nothing: the bytes are compared."""

DRAW_BYTES = 4
"""Of the random text, which has two characters for each."""

_IN_SYNC = "in_sync"
_SEEN = re.compile(rf"([0-9]{{1,18}}):([0-9a-z]*):([0-9]{{1,18}})(:{_IN_SYNC})?")


class BegunEpoch(NamedTuple):
    """An epoch, a random text that the same epoch of another line has not, and the znode's version that began it."""

    epoch: int
    draw: str
    version: int

    @classmethod
    def of(cls, document: object) -> Self:
        """Read what stands in the state. Raises ValueError and TypeError."""
        epoch, draw, version = document if isinstance(document, list) else (None, None, None)
        if type(epoch) is not int or type(version) is not int or not isinstance(draw, str) or min(epoch, version) < 0:
            raise ValueError(f"{document!r} is not an epoch, its draw, and the version that began it")
        return cls(epoch, draw, version)


class SeenState(NamedTuple):
    """The newest state that a disk knows of, by its epoch, that epoch's draw, and the znode's version.

    `draw` is empty where the state had none, and `is_in_sync` says whether that state counts the disk as in sync.
    """

    epoch: int
    draw: str
    version: int
    is_in_sync: bool

    @property
    def newness(self) -> tuple[int, int]:
        """By which two states of one line compare."""
        return (self.epoch, self.version)

    @property
    def text(self) -> str:
        """Its text in a member's znode and in the file `replica`."""
        return f"{self.epoch}:{self.draw}:{self.version}" + (f":{_IN_SYNC}" if self.is_in_sync else "")

    @classmethod
    def of(cls, text: object) -> Self:
        """Read the text. Raises ValueError."""
        found = _SEEN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"{text!r} is not a state that was seen")
        epoch, draw, version, in_sync = found.groups()
        return cls(int(epoch), draw, int(version), in_sync is not None)


def read_seen(texts: Mapping[_Key, str]) -> dict[_Key, SeenState]:
    """Return the states that texts say were seen, but for those that say nothing that is understood here."""
    seen: dict[_Key, SeenState] = {}
    for who, text in texts.items():
        with suppress(ValueError):
            seen[who] = SeenState.of(text)
    return seen


def begin_epoch(line: Sequence[BegunEpoch], begun: BegunEpoch) -> tuple[BegunEpoch, ...]:
    """Return the line with one more epoch, without those that are too old to stand there."""
    return (*line, begun)[-MOST_BEGUN:]


def is_of_line(line: Sequence[BegunEpoch], seen: SeenState) -> bool:
    """Say whether a state that was seen was on this line, as far as the line tells."""
    for begun, after in zip_longest(line, line[1:]):
        if begun.epoch == seen.epoch:
            return seen.draw in {"", begun.draw} and (after is None or seen.version < after.version)
    return True
