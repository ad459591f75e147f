"""The audit's state: one line for each window with a final verdict, and where in the topic `audit` it goes on.

A verdict is final once nothing is unknown of the window and of all those of the half hour after it. Should a report of
such a window come nevertheless, as when quarantined messages are loaded days later, everything is to be read again; so
it is when a table loses rows that were counted, or another table takes over its tier.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka2011.audit.compare import TierCount, WindowAccount
from kafka2011.audit.expected import Heard
from kafka2011.audit.reported_tables import TableMark
from kafka2011.audit.scan import AGAIN_MS
from kafka2011.disk import SYSTEM_DISK
from kafka2011.errors import KafkaError
from kafka2011.json_document import read_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_VERSION = 1
KEEP_MS = 7 * 24 * 3_600_000
"""Windows that are older are dropped, as brokers drop their reports unless told otherwise."""


class AuditStateError(KafkaError):
    """The file with the state cannot be used; the text names it."""


class ReadPlace(NamedTuple):
    """How far the topic `audit` was read, by broker and partition.

    `starts` is where what windows from `from_ms` on need begins, and `ends` is where the log ended.
    """

    from_ms: int | None
    starts: dict[tuple[int, int], int]
    ends: dict[tuple[int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditState:
    """All windows of a cluster before `until_ms` (None: nothing is judged yet), and whether each has a gap.

    They were compared in these tiers, for these topics or, if there are none, all, and from a time on or ever. Reading
    goes on at `place`. With the digest of a declared `pipeline` there are no `tiers`, each topic has its own, and
    `heard` says which of them have reported, and where.
    """

    home: str
    tiers: tuple[str, ...]
    topics: tuple[str, ...]
    from_ms: int | None
    window_ms: int
    until_ms: int | None
    place: ReadPlace
    windows: Mapping[WindowAccount, bool] = field(default_factory=dict)
    pipeline: str = ""
    heard: frozenset[Heard] = frozenset()
    tables: Mapping[tuple[str, str], TableMark] = field(default_factory=dict)
    """By topic and tier, the table whose counts were believed."""

    def ended_by(self, until_ms: int) -> AuditState:
        """Return the same with only those windows that end by a time."""
        last_ms = until_ms - self.window_ms
        return replace(
            self, windows={account: is_gap for account, is_gap in self.windows.items() if account.start_ms <= last_ms}
        )

    @classmethod
    def load(
        cls, path: Path, tiers: Iterable[str], topics: Iterable[str], from_ms: int | None, pipeline: str = ""
    ) -> Self | None:
        """Read the file; None if there is none. Raises AuditStateError, also when other windows were compared.

        `pipeline` is the digest of what is declared; empty if nothing is.
        """
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AuditStateError(f"cannot read {path}: {error}") from error
        state = read_document(text, cls._of, AuditStateError, f"{path} is no state of an audit", version=_VERSION)
        if state.pipeline != pipeline:
            of_what = "another declared pipeline" if state.pipeline and pipeline else "no declared pipeline"
            of_what = of_what if pipeline else "a declared pipeline"
            raise AuditStateError(
                f"{path} is of {of_what}: remove it to decide all windows again with this one, or name another file"
            )
        if (state.tiers, state.topics, state.from_ms) != (tuple(tiers), tuple(sorted(topics)), from_ms):
            since = "" if state.from_ms is None else f", from @{state.from_ms} on"
            raise AuditStateError(
                f"{path} is of tiers {','.join(state.tiers)} and topics {','.join(state.topics) or 'all'}{since}: name"
                " another file for others"
            )
        return state

    def save(self, path: Path) -> None:
        """Write the file; a crash leaves the one before. Raises AuditStateError."""
        try:
            with SYSTEM_DISK.replacing(path) as file:
                file.write(json.dumps(self._document(), separators=(",", ":")).encode())
        except OSError as error:
            raise AuditStateError(f"cannot write {path}: {error}") from error

    def _document(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "home": self.home,
            "tiers": self.tiers,
            "topics": self.topics,
            "from_ms": self.from_ms,
            "window_ms": self.window_ms,
            "until_ms": self.until_ms,
            "read_from_ms": self.place.from_ms,
            "starts": [[*where, offset] for where, offset in sorted(self.place.starts.items())],
            "ends": [[*where, offset] for where, offset in sorted(self.place.ends.items())],
            "windows": [
                [account.topic, account.start_ms, is_gap, [count[not self.pipeline :] for count in account.tiers]]
                for account, is_gap in self.windows.items()
            ],
            **({"pipeline": self.pipeline, "heard": sorted(self.heard)} if self.pipeline else {}),
            "tables": [[*place, *mark] for place, mark in sorted(self.tables.items())],
        }

    @classmethod
    def _of(cls, document: dict[str, Any]) -> Self:
        tiers = tuple(str(tier) for tier in document["tiers"])
        pipeline = str(document.get("pipeline", ""))
        windows: dict[WindowAccount, bool] = {}
        for topic, start_ms, is_gap, every in document["windows"]:
            named = ((str(count[0]), count[1:]) for count in every) if pipeline else zip(tiers, every, strict=True)
            counts = (TierCount(tier, *map(int, count)) for tier, count in named)
            windows[WindowAccount(str(topic), int(start_ms), tuple(counts))] = bool(is_gap)
        starts, ends = (
            {(int(broker_id), int(partition)): int(offset) for broker_id, partition, offset in document[name]}
            for name in ("starts", "ends")
        )
        return cls(
            home=str(document["home"]),
            tiers=tiers,
            topics=tuple(str(topic) for topic in document["topics"]),
            from_ms=_number(document["from_ms"]),
            window_ms=int(document["window_ms"]),
            until_ms=_number(document["until_ms"]),
            place=ReadPlace(_number(document["read_from_ms"]), starts, ends),
            windows=windows,
            pipeline=pipeline,
            heard=frozenset(Heard(*map(str, heard)) for heard in document.get("heard", ())),
            tables=dict(_mark(*mark) for mark in document.get("tables", [])),
        )


def _mark(
    topic: str, tier: str, table: str, number: int, attempt: str, removals: Sequence[str]
) -> tuple[tuple[str, str], TableMark]:
    return (str(topic), str(tier)), TableMark(str(table), int(number), str(attempt), tuple(map(str, removals)))


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def until_when(settled_ms: int | None, before_ms: int | None, again_ms: int = AGAIN_MS) -> int | None:
    """Return until when windows are judged for good, if nothing before `settled_ms` is unknown; it never goes back."""
    if settled_ms is None or (before_ms is not None and settled_ms - again_ms <= before_ms):
        return before_ms
    return settled_ms - again_ms
