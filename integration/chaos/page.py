"""One HTML page that shows a run on one time axis: faults, how far groups are behind, owners and commits. Pure."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from integration.chaos.account.settling import behind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from integration.chaos.evidence import Evidence

_LABEL_PX, _WIDTH_PX, _ROW_PX = 150, 1500, 16
_LAG_PX = 70
_TICK_S = 10
_POINTS = 750
_STYLE = """
body { font: 13px sans-serif; margin: 1em; } svg { font: 11px sans-serif; }
pre { background: #f4f4f4; padding: 1em; } .bad { color: #b00; }
"""
_COLOURS = {
    "kill": "#c0392b",
    "pause": "#d68910",
    "link": "#2e86c1",
    "join": "#229954",
    "leave": "#7d3c98",
    "power": "#922b21",
}


class _Drawing:
    """Rows below one another, on one time axis."""

    def __init__(self, begin_s: float, end_s: float) -> None:
        self._begin_s = begin_s
        self._px_per_s = _WIDTH_PX / max(end_s - begin_s, 1.0)
        self._end_s = end_s
        self.y = 20
        self._shapes: list[str] = []

    def x(self, stamp_s: float) -> float:
        return _LABEL_PX + (min(max(stamp_s, self._begin_s), self._end_s) - self._begin_s) * self._px_per_s

    def label(self, text: str, *, bold: bool = False) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self._shapes.append(f'<text x="0" y="{self.y + 12}"{weight}>{html.escape(text)}</text>')

    def bar(self, begin_s: float, end_s: float, colour: str, tip: str) -> None:
        left = self.x(begin_s)
        width = max(self.x(end_s) - left, 2.0)
        self._shapes.append(
            f'<rect x="{left:.1f}" y="{self.y + 2}" width="{width:.1f}" height="{_ROW_PX - 4}" fill="{colour}">'
            f"<title>{html.escape(tip)}</title></rect>"
        )

    def tick(self, stamp_s: float) -> None:
        x = self.x(stamp_s)
        self._shapes.append(
            f'<line x1="{x:.1f}" y1="{self.y + 9}" x2="{x:.1f}" y2="{self.y + 14}" stroke="#000" stroke-width="0.6"/>'
        )

    def curve(self, points: Iterable[tuple[float, float]], most: float) -> None:
        base = self.y + _LAG_PX
        line = " ".join(f"{self.x(s):.1f},{base - (_LAG_PX - 4) * value / max(most, 1):.1f}" for s, value in points)
        self._shapes.append(f'<polyline points="{line}" fill="none" stroke="#1a5276"/>')
        self._shapes.append(f'<text x="{_LABEL_PX - 45}" y="{self.y + 12}">{most:g}</text>')
        self.y += _LAG_PX

    def next_row(self) -> None:
        self.y += _ROW_PX

    def svg(self) -> str:
        grid = "".join(
            f'<line x1="{self.x(s):.1f}" y1="14" x2="{self.x(s):.1f}" y2="{self.y}" stroke="#ddd"/>'
            f'<text x="{self.x(s):.1f}" y="11">{s - self._begin_s:g} s</text>'
            for s in _times(self._begin_s, self._end_s)
        )
        width = _LABEL_PX + _WIDTH_PX + 20
        return f'<svg width="{width}" height="{self.y + 10}">{grid}{"".join(self._shapes)}</svg>'


def _times(begin_s: float, end_s: float) -> Iterator[float]:
    step_s = _TICK_S * max(1, round((end_s - begin_s) / 200))
    stamp_s = begin_s
    while stamp_s < end_s:
        yield stamp_s
        stamp_s += step_s


def page_of(evidence: Evidence, seed: int, account: str, *, is_good: bool) -> str:
    """Return the page; what is under the pointer says what it is."""
    drawing = _Drawing(evidence.started_s, max(evidence.ended_s, evidence.started_s + 1))
    _draw_faults(drawing, evidence)
    for group in sorted(evidence.groups):
        _draw_lag(drawing, evidence, group)
        _draw_owners(drawing, evidence, group)
    verdict = "every rule held" if is_good else '<span class="bad">FAILED</span>'
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>chaos {seed}</title><style>{_STYLE}</style>'
        f"<h1>Seed {seed}: {verdict}</h1>{drawing.svg()}<pre>{html.escape(account)}</pre></html>\n"
    )


def _draw_faults(drawing: _Drawing, evidence: Evidence) -> None:
    drawing.label("faults", bold=True)
    drawing.next_row()
    by_kind: dict[str, list[tuple[float, float, str]]] = {}
    for each in evidence.happened:
        if each.whom:
            text = f"{each}, {each.begun_s - evidence.started_s:.1f} to {each.ended_s - evidence.started_s:.1f} s"
            by_kind.setdefault(each.fault.kind, []).append((each.begun_s, each.ended_s, text))
    for kind in sorted(by_kind):
        drawing.label(kind)
        for begin_s, end_s, text in by_kind[kind]:
            drawing.bar(begin_s, end_s, _COLOURS.get(kind.split()[0], "#707b7c"), text)
        drawing.next_row()


def _draw_lag(drawing: _Drawing, evidence: Evidence, group: str) -> None:
    drawing.next_row()
    drawing.label(f"group {group}", bold=True)
    drawing.next_row()
    drawing.label("behind")
    for begin_s, end_s in behind(evidence, group):
        drawing.bar(begin_s, end_s, "#e59866", f"{end_s - begin_s:.1f} s")
    drawing.next_row()
    changes = sorted(_lag_changes(evidence, group))
    points, lag, most = [], 0, 0
    for stamp_s, change in changes:
        lag += change
        most = max(most, lag)
        points.append((stamp_s, float(lag)))
    drawing.label("to come")
    drawing.curve(_thinned(points), most)


def _lag_changes(evidence: Evidence, group: str) -> Iterator[tuple[float, int]]:
    gone = evidence.gone()
    received_s: dict[object, float] = {}
    for receipt in evidence.receipts_of(group):
        received_s.setdefault(receipt.message, receipt.stamp_s)
    for sent in evidence.confirmed():
        end_s = received_s.get(sent.message, evidence.ended_s)
        if end_s > sent.ended_s and (sent.message in received_s or sent.message not in gone):
            yield sent.ended_s, 1
            yield end_s, -1


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return so many points that they can be told apart, each the highest of those that it stands for."""
    size = max(1, len(points) // _POINTS)
    return [max(points[start : start + size], key=lambda point: point[1]) for start in range(0, len(points), size)]


def _draw_owners(drawing: _Drawing, evidence: Evidence, group: str) -> None:
    names = sorted({owned.member for owned in evidence.registry.owned if owned.group == group})
    colours = {name: f"hsl({number * 137 % 360}, 55%, 65%)" for number, name in enumerate(names)}
    for where in sorted({owned.where for owned in evidence.registry.owned if owned.group == group}):
        drawing.label(str(where))
        for owned in evidence.registry.owned:
            if (owned.group, owned.where) == (group, where):
                drawing.bar(owned.begin_s, owned.end_s, colours[owned.member], f"{owned.member} owns {where}")
        for commit in evidence.registry.commits:
            if (commit.group, commit.where) == (group, where):
                drawing.tick(commit.stamp_s)
        drawing.next_row()
