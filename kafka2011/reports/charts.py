"""Pictures for a page: SVG that needs nothing else, as the address of an image."""

from __future__ import annotations

import base64
import io
import warnings
from typing import TYPE_CHECKING

from kafka2011.errors import missing_extra
from kafka2011.reports.sections import BarsChart, HoursChart

try:
    import matplotlib.dates
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from matplotlib.axes import Axes

COLOURS = ("#0b5394", "#e69f00", "#9a9a9a")
"""Apart from one another for colour-blind eyes too, and in grey."""

_INK = "#1a1a1a"
_RULE = "#d9d9d9"
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "text.parse_math": False,  # a $ in the name of a page is no formula
    "axes.edgecolor": _RULE,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "kafka2011",  # the same numbers make the same bytes
}
_WIDTH_INCHES = 8.6
_HOURS_HEIGHT_INCHES = 2.6
_BAR_HEIGHT_INCHES = 0.28
_MAX_LABEL = 44


def draw(chart: HoursChart | BarsChart) -> str:
    """Draw a picture, and return its address."""
    if isinstance(chart, HoursChart):
        return _lines(chart.hours, chart.series)
    return _bars(chart.labels, chart.series)


def _lines(hours: Sequence[datetime], series: Mapping[str, Sequence[int]]) -> str:
    with rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(_WIDTH_INCHES, _HOURS_HEIGHT_INCHES), layout="constrained")
        axes = figure.subplots()
        for colour, (name, values) in zip(COLOURS, series.items(), strict=False):
            axes.plot(hours, values, color=colour, linewidth=1.8, label=name)  # type: ignore[arg-type]
            if len(series) == 1:
                axes.fill_between(hours, values, color=colour, alpha=0.12, linewidth=0)  # type: ignore[arg-type]
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        locator = matplotlib.dates.AutoDateLocator(maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(_THOUSANDS)
        axes.grid(axis="y", color=_RULE, linewidth=0.8)
        _finish(axes, len(series) > 1)
        return _address(figure)


def _bars(labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """Draw a bar for each label, the first one on top, with the parts that the series give, one after the other."""
    with rc_context(_STYLE):  # type: ignore[arg-type]
        height = 0.6 + _BAR_HEIGHT_INCHES * len(labels) + (0.3 if len(series) > 1 else 0)
        figure = Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
        axes = figure.subplots()
        places = range(len(labels))
        ends = [0.0] * len(labels)
        for colour, (name, values) in zip(COLOURS, series.items(), strict=False):
            axes.barh(places, values, left=ends, color=colour, height=0.72, label=name)
            ends = [end + value for end, value in zip(ends, values, strict=True)]
        for place, end in zip(places, ends, strict=True):
            axes.annotate(
                f"{end:,.0f}", (end, place), (4, 0), textcoords="offset points", va="center", annotation_clip=False
            )
        axes.set_yticks(places, [_short(label) for label in labels])
        axes.invert_yaxis()
        axes.set_xlim(0, max([*ends, 1]) * 1.1)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(_THOUSANDS)
        axes.grid(axis="x", color=_RULE, linewidth=0.8)
        axes.set_axisbelow(True)
        _finish(axes, len(series) > 1)
        return _address(figure)


_THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")


def _finish(axes: Axes, with_legend: bool) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    if with_legend:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0)


def _short(label: str) -> str:
    return label if len(label) <= _MAX_LABEL else f"{label[: _MAX_LABEL - 1]}…"


def _address(figure: Figure) -> str:
    drawn = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # whoever shows the picture has other fonts
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.getvalue()).decode()}"
