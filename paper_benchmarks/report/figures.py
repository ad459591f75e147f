"""The pictures of the first page: figures 4 and 5 of the paper again, and a panel for each of its reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiments import reasons
from paper_benchmarks.measuring.samples import Spread
from paper_benchmarks.pages.pictures import bars, colour, counted, legend_below, marker, picture, plots
from paper_benchmarks.report import paper_curves
from paper_benchmarks.report.headlines import best, lines_of, rates
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import BYTES_ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    Line = Mapping[str, Any]

FIGURE_4, FIGURE_5, REASONS = "figure-4.svg", "figure-5.svg", "reasons.svg"
_OURS = {"produce": (("sync", 50), ("async", 1), ("sync", 1)), "consume": (("batches", 1), ("stream", 1))}
_STYLES = ("-", "--", ":")
_PAPER = "#888888"


def draw_figure(body: Mapping[str, Any], path: Path, do: str) -> None:
    """Draw messages a second until then over megabytes so far: ours, and the fastest library of every other system.

    Both axes are logarithmic. A line is the median of all rounds, and the band around it reaches from the lowest to the
    highest; beneath lie the paper's, grey and dashed.
    """
    old = paper_curves.FIGURE_4 if do == "produce" else paper_curves.FIGURE_5
    with picture(path, width=8, height=5) as axes:
        for name, points in old.items():
            axes.plot(*zip(*points, strict=True), color=_PAPER, linestyle="--", linewidth=0.8)
            axes.annotate(f"{name}, 2011", points[-1], color=_PAPER, fontsize=7, ha="right", va="bottom")
        for line, style in chosen(body, do):
            megabytes, lowest, medians, highest = zip(*line["curve"], strict=True)
            tint = colour(line["kind"])
            label = f"{line['title']}, {line['line']}"
            form = marker(line["kind"])
            axes.plot(
                megabytes,
                medians,
                style,
                color=tint,
                marker=form,
                markersize=3.5,
                markevery=4,
                linewidth=1.3,
                label=label,
            )
            axes.fill_between(megabytes, lowest, highest, color=tint, alpha=0.12, linewidth=0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        counted(axes.yaxis)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("MB of payloads so far")
        axes.set_ylabel("messages/s until then")
        axes.set_title(f"Figure {4 if do == 'produce' else 5} again: one {do}r, messages of 200 bytes")
        legend_below([axes])


def chosen(body: Mapping[str, Any], do: str) -> list[tuple[Line, str]]:
    """Return the lines of a figure, and how each is drawn."""
    lines = [line for line in lines_of(body) if line["do"] == do and line["way"] not in BYTES_ALONE]
    ours = {(line["client"], line["batch"]): line for line in lines if line["kind"] == OWN}
    found = [(ours[key], style) for key, style in zip(_OURS[do], _STYLES, strict=False) if key in ours]
    for kind in dict.fromkeys(line["kind"] for line in lines if not line["kind"].startswith(OWN)):
        fastest = best([line for line in lines if line["kind"] == kind], rates, most=True)
        assert fastest is not None
        found.append((fastest, "-"))
    return found


def draw_reasons(body: Mapping[str, Any], path: Path) -> None:
    """Draw a panel for each reason: medians of the rounds, with marks from the lowest to the highest."""
    with plots(path, 3, rows=2, width=11, height=5.6) as panels:
        waited, sets, disk, state, files, cache = panels
        _bars(waited, body["acknowledgement"], "rate", "1  No acknowledgement", "messages/s", logarithmic=True)
        sizes = [int(size) for size in body["batching"]]
        spreads = [Spread.of(each["rate"]) for each in body["batching"].values()]
        sets.plot(sizes, [each.median for each in spreads], color=colour(OWN), marker=marker(OWN), markersize=4)
        lowest, highest = [each.lowest for each in spreads], [each.highest for each in spreads]
        sets.fill_between(sizes, lowest, highest, color=colour(OWN), alpha=0.15, linewidth=0)
        sets.set_xscale("log")
        sets.set_xticks(sizes, [str(size) for size in sizes])
        sets.minorticks_off()
        counted(sets.yaxis)
        sets.set_ylim(bottom=0)
        sets.set_xlabel("messages in a set")
        sets.set_ylabel("messages/s")
        sets.set_title("2  Batches")
        lines = body["bytes"]
        tints = [colour(line["kind"]) for line in lines]
        overheads = {line["title"]: reasons.overhead(line) for line in lines}
        bars(disk, overheads, tints, "bytes a message besides its 200")
        disk.set_title("3  Compact format")
        written = {line["title"]: line["written_bytes"] for line in lines}
        bars(state, written, tints, "bytes written for a message read")
        state.set_title("4  No delivery state")
        _bars(files, body["sendfile"], "client_cpu_us", "5  sendfile", "sender, CPU us a MB")
        _bars(cache, body["page_cache"], "rate", "6  The page cache", "messages/s read")


def _bars(
    axes: Axes,
    lines: Mapping[str, Mapping[str, Sequence[float]]],
    key: str,
    title: str,
    unit: str,
    *,
    logarithmic: bool = False,
) -> None:
    spreads = {name: Spread.of(found[key]) for name, found in lines.items()}
    medians = {name: spread.median for name, spread in spreads.items()}
    ends = [(spread.median - spread.lowest, spread.highest - spread.median) for spread in spreads.values()]
    bars(axes, medians, colour(OWN), unit, errors=ends)
    counted(axes.xaxis)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xlim(left=min(medians.values()) / 3, right=max(medians.values()) * 20)
    axes.set_title(title)
