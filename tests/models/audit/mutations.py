"""Defects that the audit's rules could have: one change each to the shipped code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.audit import evidence
from kafka2011.audit.complete import complete
from kafka2011.audit.evidence import Evidence
from kafka2011.audit.heard import Heard
from kafka2011.audit.run import keep
from kafka2011.audit.standing import Standing
from kafka2011.audit.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable


class Mutation(NamedTuple):
    """A defect, the change that makes it, and a walk that meets it; `also` is one more change."""

    defect: str
    function: Callable[..., Any]
    old: str
    new: str
    seed: int = 0
    also: tuple[Callable[..., Any], str, str] | None = None


MUTATIONS = (
    Mutation(
        "silence is taken for proof", Evidence._of_sources, "elif not heard.has_closed(from_ms):", "elif heard is None:"
    ),
    Mutation(
        "who has died is forgotten",
        Evidence._of_sources,
        "elif not heard.has_closed(from_ms):",
        "elif not heard.has_closed(from_ms) and reading.at_ms - last_ms <= rules.dead_after_ms:",
    ),
    Mutation("events under way are forgotten", Standing.through, "[now_us, *self._under_way]", "[now_us]", seed=4),
    Mutation("counts that are held are forgotten", Standing.through, "if held_ms is not None:", "if False:", seed=48),
    Mutation(
        "it closes with events under way", Standing.through, "is_last and not self._under_way", "is_last", seed=49
    ),
    Mutation(
        "it stamps before its own time",
        Standing.stamp,
        "now_us if self._floor_us is None else max(now_us, self._floor_us)",
        "now_us",
        seed=139,
    ),
    Mutation(
        "missing numbers are not missed", Heard._in_sequence, "if each.number < unbroken", "if unbroken >= 0", seed=28
    ),
    Mutation(
        "who has closed has lost nothing",
        Heard.has_closed,
        "self._last_number is not None and self.has_all(self._base(from_ms), self._last_number)",
        "self._last_number is not None",
        seed=1456,
    ),
    Mutation(
        "any statement will do to begin with",
        Heard._base,
        "if each.through_ms <= from_ms",
        "if each.through_ms",
        seed=519,
    ),
    Mutation(
        "partitions of the topic audit that cannot be read hold nothing",
        Evidence._of_reading,
        "for fault in reading.faults:",
        "for fault in ():",
        seed=118,
    ),
    Mutation(
        "who begins now stamps nothing old",
        Evidence._of_reading,
        "reading.at_ms - rules.margin_ms",
        "reading.at_ms",
        also=(complete, "read_ms - rules.margin_ms", "read_ms"),
        seed=9,
    ),
    Mutation(
        "a mirror's word is not asked for", Evidence._of_copies, "homes - {reading.home}", "homes - homes", seed=3
    ),
    Mutation(
        "a mirror's word is about now",
        Evidence._of_copies,
        "None if copied_ms is None else copied_ms - rules.margin_ms",
        "None if copied_ms is None else copied_ms",
        seed=423,
    ),
    Mutation("a mirror need not reach the ends", evidence._is_all, "reached >= ends.end", "True", seed=29),
    Mutation(
        "an end that nobody knows is reached",
        evidence._is_all,
        "ends.end is not None and (",
        "ends.end is None or (",
        seed=320,
    ),
    Mutation("what is in doubt is beyond doubt", judge, "if is_settled else None", "if False else end_ms"),
    Mutation(
        "gaps that were judged are forgotten",
        judge,
        "for account, is_gap in earlier.items() if is_gap",
        "for account in ()",
        seed=12,
    ),
    Mutation("what is judged has no gap", keep, "each: each in gaps", "each: False", seed=12),
    Mutation("missing messages are not missed", complete, "if missing:", "if missing < 0:", seed=2),
)
