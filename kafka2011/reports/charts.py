"""Pictures for a page: SVG that needs nothing else, as the addresses of images, for light and dark screens."""

from __future__ import annotations

import base64
import io
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import missing_extra

try:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from matplotlib.axes import Axes

    from kafka2011.reports.sections import HoursChart

COLOURS = ("#0b5394", "#e69f00", "#9a9a9a")
"""Apart from one another for colour-blind eyes too, and in grey."""

_INK = "#1a1a1a"
_RULE = "#d9d9d9"
_IN_THE_DARK = {_INK: "#e6e6e6", _RULE: "#404040", COLOURS[0]: "#6fa8dc"}
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _RULE,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "kafka2011",  # the same numbers make the same bytes
}
_WIDTH_INCHES = 8.6
_HEIGHT_INCHES = 2.6
_MOST_TICKS = 8
_HOUR = timedelta(hours=1)
_THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")


class Picture(NamedTuple):
    """The address of a picture, and that of the same one for dark screens."""

    light: str
    dark: str


def draw(chart: HoursChart) -> Picture:
    """Draw a line for each series. Hours stand side by side; where some are left out, the lines break."""
    with rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
        axes = figure.subplots()
        pieces = _pieces(chart.hours)
        for colour, (name, values) in zip(COLOURS, chart.series.items(), strict=False):
            for number, piece in enumerate(pieces):
                label = name if number == 0 else None
                axes.plot(piece, values[piece.start : piece.stop], color=colour, linewidth=1.8, label=label)
                if len(chart.series) == 1:
                    axes.fill_between(piece, values[piece.start : piece.stop], color=colour, alpha=0.12, linewidth=0)
        for piece in pieces[1:]:
            axes.axvline(piece.start - 0.5, color=_RULE, linewidth=1.2, linestyle=(0, (2, 2)))
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        places, labels = _ticks(chart.hours)
        axes.set_xticks(places, labels, ha="left" if len(pieces) > 1 else "center")
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(_THOUSANDS)
        axes.grid(axis="y", color=_RULE, linewidth=0.8)
        _finish(axes, with_legend=len(chart.series) > 1)
        return _addresses(figure)


def _pieces(hours: Sequence[datetime]) -> list[range]:
    """Return the places of hours that follow one another."""
    starts = [0, *(place for place in range(1, len(hours)) if hours[place] - hours[place - 1] > _HOUR)]
    return [range(start, end) for start, end in zip(starts, [*starts[1:], len(hours)], strict=True)]


def _ticks(hours: Sequence[datetime]) -> tuple[list[int], list[str]]:
    """Return places and labels: days, with the year where it is another one; hours of the day where there is one."""
    days = [place for place, hour in enumerate(hours) if not place or hour.date() != hours[place - 1].date()]
    if len(days) == 1:
        step = -(-len(hours) // _MOST_TICKS)
        places = [place for place, hour in enumerate(hours) if hour.hour % step == 0]
        return places, [f"{hours[place]:%H:%M}" for place in places]
    chosen = days[:: -(-len(days) // _MOST_TICKS)]
    labels = []
    for number, place in enumerate(chosen):
        is_new = not number or hours[place].year != hours[chosen[number - 1]].year
        labels.append(f"{hours[place]:%-d %b}" + (f"\n{hours[place]:%Y}" if is_new else ""))
    return chosen, labels


def _finish(axes: Axes, *, with_legend: bool) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, pad=6)
    if with_legend:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0)


def _addresses(figure: Figure) -> Picture:
    drawn = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # whoever shows the picture has other fonts
        figure.savefig(drawn, format="svg", metadata={"Date": None}, transparent=True)
    light = dark = drawn.getvalue()
    for colour, in_the_dark in _IN_THE_DARK.items():
        dark = dark.replace(colour, in_the_dark)
    return Picture(_address(light), _address(dark))


def _address(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
