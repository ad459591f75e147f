"""What the numbering of a partition needs from others: the log itself, a file, and anchors in ZooKeeper."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafka2011.gateway.numbering.boundaries import Boundary, Tail
from kafka2011.gateway.numbering.entries import Entries
from kafka2011.json_document import read_document
from zk.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.records.found import Piece

_VERSION = 1
MOST_CHARACTERS = 512 * 1024
"""ZooKeeper takes 1 MB of data by default."""


class AnchorsError(KafkaError):
    """Means that a znode does not hold the anchors of a partition."""


class AnchorState(NamedTuple):
    """What ZooKeeper keeps of a partition's numbering, in case the file is lost."""

    generation: int
    """How often numbers have jumped: older places may be void."""
    reserved: int
    """No message was given this number or a higher one."""
    tail: Tail
    places: tuple[Boundary, ...]
    end: Boundary | None = None
    """Up to where `senders` goes; None if that is not kept here."""
    senders: dict[str, Any] | None = None
    times: list[list[int]] | None = None
    """The largest timestamps up to `end`, as `TimeStretches` keeps them; None from an older gateway."""

    def text(self) -> str:
        """Return it as JSON, without the senders if they are too many for a znode."""
        places = [list(place) for place in self.places]
        document: dict[str, Any] = {"version": _VERSION, "generation": self.generation, "reserved": self.reserved}
        document |= {"tail": self.tail.document(), "places": places}
        if self.end is not None and self.senders is not None:
            more = {"end": list(self.end), "senders": self.senders, "times": self.times}
            text = json.dumps(document | more, separators=(",", ":"))
            if len(text) <= MOST_CHARACTERS:
                return text
        return json.dumps(document, separators=(",", ":"))

    def stored(self) -> Stored | None:
        """Return what the file of an index would keep, but for places between anchors; None without the senders."""
        if self.end is None or self.senders is None:
            return None
        known = sorted({*self.places, self.end})
        entries = Entries(place for place in known if place.position <= self.end.position)
        return Stored(
            self.generation,
            self.reserved,
            known[0],
            self.end,
            self.tail,
            tuple(place for place in known if place.position > self.end.position),
            self.places,
            self.senders,
            entries,
            self.times,
        )

    @classmethod
    def of(cls, text: str | bytes) -> AnchorState:
        """Return the state of a text. Raises AnchorsError."""
        return read_document(text, cls._of, AnchorsError, "these are no anchors of a partition", version=_VERSION)

    @classmethod
    def _of(cls, document: dict[str, Any]) -> AnchorState:
        places = tuple(Boundary(int(position), int(number)) for position, number in document["places"])
        state = cls(int(document["generation"]), int(document["reserved"]), Tail.of(document["tail"]), places)
        if "senders" not in document:
            return state
        position, number = map(int, document["end"])
        return state._replace(
            end=Boundary(position, number), senders=dict(document["senders"]), times=document.get("times")
        )


class Stored(NamedTuple):
    """What the file of an index keeps."""

    generation: int
    reserved: int
    start: Boundary
    """The first message of the log."""
    end: Boundary
    """Up to where the entries and `senders` go. The log was numbered up to `tail`, and perhaps further."""
    tail: Tail
    ahead: tuple[Boundary, ...]
    """Places behind `end` that are known already."""
    anchored: tuple[Boundary, ...]
    """The places that ZooKeeper has to keep as well."""
    senders: dict[str, Any]
    """What `Senders` knows."""
    entries: Entries
    times: list[list[int]] | None = None
    """The largest timestamps up to `end`, as `TimeStretches` keeps them; None from an older gateway."""


class LogReader(Protocol):
    """The readable part of a partition's log. Its errors pass through the index."""

    def earliest(self) -> int:
        """Return the position of the first byte."""

    def latest(self) -> int:
        """Return the position behind the last readable byte."""

    def read(self, position: int, max_bytes: int) -> bytes:
        """Return bytes from a position on; none at the end."""


class IndexFile(Protocol):
    """Keeps an index on disk. Raises OSError."""

    def load(self) -> Stored | None:
        """Return what was stored last, with the tail that was noted last; None where that is lost."""

    def store(self, stored: Stored) -> None:
        """Keep an index, so that it survives a power cut; a crash leaves it or the one before."""

    def note(self, generation: int, tail: Tail) -> None:
        """Keep how far the log was numbered, so that it survives the end of the process; no more is asked."""


class Anchors(Protocol):
    """Keeps anchors in ZooKeeper. Its errors pass through the index."""

    def load(self) -> AnchorState | None:
        """Return what was stored last; None where there is nothing."""

    def store(self, state: AnchorState) -> None:
        """Keep anchors."""


if TYPE_CHECKING:
    FindPieces = Callable[[bytes, int], tuple[list[Piece], int]]
    """Finds the pieces of bytes that lie at a position of the log; runs of plain messages are split at about 64 KiB."""
