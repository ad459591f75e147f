"""Pictures of the report: SVG, the same bytes for the same figures."""

from __future__ import annotations

import io
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from paper_benchmarks.pages.tables import significant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

MARKS = {
    "kafka2011": ("#0072b2", "o"),
    "kafka": ("#d55e00", "s"),
    "rabbitmq-streams": ("#e69f00", "^"),
    "rabbitmq": ("#cc79a7", "v"),
    "activemq": ("#56b4e9", "D"),
    "redis": ("#6a3d9a", "P"),
    "nats": ("#555555", "X"),
}
"""Colour and marker of systems, the same in every picture: no two differ by red and green alone (Okabe and Ito)."""
_RESULTS = Path(__file__).parents[1] / "results"
_OTHER = ("#999999", "*")
_SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "kafka2011",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "legend.fontsize": 7,
}


def colour(system: str) -> str:
    """Return a system's colour."""
    return MARKS.get(system, _OTHER)[0]


def marker(system: str) -> str:
    """Return a system's marker."""
    return MARKS.get(system, _OTHER)[1]


@contextmanager
def picture(path: Path, *, width: float = 7.5, height: float = 4.2) -> Iterator[Axes]:
    """Give axes to draw on, and write them as SVG to the path."""
    with plots(path, 1, width=width, height=height) as [axes]:
        yield axes


@contextmanager
def plots(path: Path, count: int, *, rows: int = 1, width: float = 7.5, height: float = 4.2) -> Iterator[list[Axes]]:
    """Give several axes beside one another, row by row."""
    with mpl.rc_context(cast("Any", _SETTINGS)):
        figure, found = plt.subplots(rows, count, figsize=(width, height), squeeze=False, layout="constrained")
        try:
            yield list(found.flat)
            drawn = io.StringIO()
            figure.savefig(drawn, format="svg", metadata={"Date": None})
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_compact(drawn.getvalue()), encoding="utf-8")
        finally:
            plt.close(figure)


def _compact(svg: str) -> str:
    """Have one line for what has a name, and hundredths of a point: other figures then change few lines."""
    svg = re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", svg)
    return re.sub(r"\s*\n\s*", " ", svg).replace(" <g id=", "\n<g id=").rstrip() + "\n"


def legend_below(several: Sequence[Axes], columns: int = 2) -> None:
    """Put one legend for all axes beneath them, each name once."""
    found: dict[str, Any] = {}
    for axes in several:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure = several[0].get_figure()
    assert figure is not None
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns)


def bars(
    axes: Axes,
    values: Mapping[str, float],
    colours: Sequence[str] | str,
    label: str,
    errors: Sequence[tuple[float, float]] = (),
) -> None:
    """Draw named values as bars one below the other, with their numbers, and marks for how far they are spread."""
    marks: dict[str, Any] = (
        {"xerr": list(zip(*errors, strict=True)), "error_kw": {"elinewidth": 1, "capsize": 2}} if errors else {}
    )
    drawn = axes.barh(list(values), list(values.values()), color=colours, **marks)
    axes.bar_label(drawn, fmt=lambda value: significant(value) or "", fontsize=8, padding=3)
    lying(axes, label)


def lying(axes: Axes, label: str) -> None:
    """Arrange axes of bars that lie: the first at the top, room for numbers beside them."""
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5, prune="upper"))  # its number would meet the next picture's first one
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_xlabel(label)


def counted(axis: Axis) -> None:
    """Write the numbers of an axis as 10k and 2M."""
    axis.set_major_formatter(EngFormatter(sep=""))


def image(path: Path, text: str) -> str:
    """Return a picture for Markdown; reports lie beside the directory of results, or in one that is not the usual."""
    directory = "results/" if path.parents[1] == _RESULTS else ""
    return f"![{text}]({directory}{path.parent.name}/{path.name})"
