"""A recording: frames of one story, each with what has changed, the line of code, and the paper's sentence."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka2011.lab.paper import NONE

if TYPE_CHECKING:
    from types import CodeType

    from kafka2011.lab.paper import Sentence

ROOT = Path(__file__).parents[2]

Panels = dict[str, dict[str, str]]
"""What is shown, by panel and row."""


@dataclass(frozen=True)
class Place:
    """Lines of a function of shipped code: what a step has executed, or where it waits."""

    code: CodeType
    lines: tuple[int, ...]
    callers: tuple[str, ...] = ()
    """The shipped functions that have called it, the outermost first."""


@dataclass
class Frame:
    """One step: who does what, and what there is afterwards."""

    who: str
    text: str
    panels: Panels
    place: Place | None = None
    sentence: Sentence = NONE


@dataclass
class Branch:
    """What follows when something goes wrong after a frame of the main line; `mark` says where that is."""

    after: int
    mark: str
    title: str
    frames: list[Frame]


@dataclass
class Story:
    """A main line of frames, and branches of it. `also` has whatever else its page shows."""

    title: str
    about: str
    frames: list[Frame] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    also: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return what JSON can hold. A frame has only the rows that differ from the frame before it."""
        tables = _Tables()
        main = tables.frames(self.frames, {})
        branches = [
            {
                "after": each.after,
                "mark": each.mark,
                "title": each.title,
                "frames": tables.frames(each.frames, self.frames[each.after].panels),
            }
            for each in self.branches
        ]
        return {
            "title": self.title,
            "about": self.about,
            "code": tables.code,
            "paper": tables.paper,
            "frames": main,
            "branches": branches,
            "also": self.also,
        }


class _Tables:
    """What many frames share: functions with their source, and sentences."""

    def __init__(self) -> None:
        self.code: list[dict[str, Any]] = []
        self.paper: list[list[str]] = []
        self._functions: dict[CodeType, int] = {}

    def frames(self, frames: list[Frame], before: Panels) -> list[dict[str, Any]]:
        """Return frames as objects; `before` is what there was before the first."""
        found = []
        for frame in frames:
            item: dict[str, Any] = {"who": frame.who, "text": frame.text}
            if changes := _changes(before, frame.panels):
                item["changes"] = changes
            if frame.place is not None:
                number = self._function(frame.place.code)
                first = frame.place.code.co_firstlineno
                item["code"] = [number, [line - first for line in frame.place.lines], *frame.place.callers]
            if frame.sentence != NONE:
                item["paper"] = self._sentence(frame.sentence)
            found.append(item)
            before = frame.panels
        return found

    def _function(self, code: CodeType) -> int:
        if code not in self._functions:
            lines, _ = inspect.getsourcelines(code)
            path = Path(code.co_filename).resolve().relative_to(ROOT)
            self._functions[code] = len(self.code)
            self.code.append({"file": str(path), "name": code.co_qualname, "source": _dedented(lines)})
        return self._functions[code]

    def _sentence(self, sentence: Sentence) -> int:
        item = [sentence.section, sentence.text]
        if item not in self.paper:
            self.paper.append(item)
        return self.paper.index(item)


def _dedented(lines: list[str]) -> list[str]:
    indent = len(lines[0]) - len(lines[0].lstrip())
    return [line[indent:].rstrip() if line.strip() else "" for line in lines]


def _changes(before: Panels, after: Panels) -> dict[str, dict[str, str | None]]:
    """Return rows that are new or differ, and None for those that are gone."""
    found: dict[str, dict[str, str | None]] = {}
    for panel in before.keys() | after.keys():
        old, new = before.get(panel, {}), after.get(panel, {})
        rows: dict[str, str | None] = {row: text for row, text in new.items() if old.get(row) != text}
        rows |= dict.fromkeys(row for row in old if row not in new)
        if rows:
            found[panel] = rows
    return {panel: found[panel] for panel in [*after, *before] if panel in found}


def is_below(code: CodeType, folders: tuple[str, ...]) -> bool:
    """Say whether a function is in one of some folders of the project."""
    return any(code.co_filename.startswith(f"{ROOT}/{folder}/") for folder in folders)
