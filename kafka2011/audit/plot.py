"""A picture of the audit: for each topic, how many messages each tier has counted, and where some are missing."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError, missing_extra

try:
    import matplotlib.dates
    from matplotlib import rc_context
    from matplotlib.figure import Figure
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from kafka2011.audit.compare import WindowAccount

logger = logging.getLogger(__name__)

_WIDTH_INCHES = 10
_HEIGHT_INCHES = 3
_DAY_MS = 86_400_000
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
"""Of the tiers; they and the next one are Okabe and Ito's, apart from one another for colour-blind eyes too."""
_MISSING = "#d55e00"
_FIRST_MS, _LAST_MS = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000) for year in (2, 9999))
"""Pictures have dates from the first year to the last one of four digits, and room beside them."""
MAX_TOPICS = 50
"""The most topics in one picture; more would make it too tall to draw."""


def plot(accounts: Sequence[WindowAccount], window_ms: int, path: Path) -> None:
    """Draw the accounts of windows of a length into a file, in the format that its suffix names.

    Raises KafkaError and OSError. Windows at times that no calendar has are logged, and left out.
    """
    drawn = [account for account in accounts if _FIRST_MS <= account.start_ms < _LAST_MS - window_ms]
    if len(drawn) < len(accounts):
        logger.warning("%d windows are not drawn: their times are outside the calendar", len(accounts) - len(drawn))
    topics = sorted({account.topic for account in drawn})
    if len(topics) > MAX_TOPICS:
        raise KafkaError(f"{len(topics)} topics are too many for one picture: name up to {MAX_TOPICS}")
    tiers = list(dict.fromkeys(count.tier for account in drawn for count in account.tiers))
    colours = {tier: _COLOURS[number % len(_COLOURS)] for number, tier in enumerate(tiers)}
    with rc_context({"text.parse_math": False}):  # a $ in the name of a topic is no formula
        figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES * max(len(topics), 1)), layout="constrained")
        for axes, topic in zip(figure.subplots(max(len(topics), 1), squeeze=False)[:, 0], topics, strict=False):
            axes.set_title(topic)
            _plot_topic(axes, sorted(account for account in drawn if account.topic == topic), window_ms, colours)
        try:
            figure.savefig(path)
        except ValueError as error:
            raise KafkaError(f"cannot draw into {path}: {error}") from error


def _plot_topic(axes: Axes, accounts: list[WindowAccount], window_ms: int, colours: dict[str, str]) -> None:
    for number, first in enumerate(accounts[0].tiers):
        edges, values = steps([(account.start_ms, account.tiers[number].distinct) for account in accounts], window_ms)
        width = 3.5 - min(number, 4) * 0.7  # so that lines that coincide are all seen
        axes.stairs(values, edges, label=first.tier, color=colours[first.tier], linewidth=width, baseline=None)
    if any(account.has_gap for account in accounts):
        edges, values = steps([(account.start_ms, _missing(account)) for account in accounts], window_ms)
        axes.stairs(values, edges, label="missing", color=_MISSING, fill=True, zorder=3)
        bands = [float(value > 0) for value in values]  # as high as the picture, or a few of many would not be seen
        where = axes.get_xaxis_transform()
        axes.stairs(bands, edges, color=_MISSING, fill=True, alpha=0.25, linewidth=1, zorder=2.5, transform=where)
    axes.set_ylabel("distinct messages a window")
    axes.set_xlabel("published, UTC")
    axes.set_ylim(bottom=0)
    axes.set_xlim(edges[0], edges[-1])
    locator = matplotlib.dates.AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.legend()


def steps(counts: Sequence[tuple[int, int]], window_ms: int) -> tuple[list[float], list[int]]:
    """Return the edges of steps, in days since 1970, and their heights: each window's count, and 0 between windows."""
    edges, values = [counts[0][0]], list[int]()
    for start_ms, count in counts:
        if start_ms > edges[-1]:
            edges.append(start_ms)
            values.append(0)
        edges.append(start_ms + window_ms)
        values.append(count)
    return [edge / _DAY_MS for edge in edges], values


def _missing(account: WindowAccount) -> int:
    """Return how many messages the tier misses that misses the most."""
    return max(max(count.missing, count.missing_since_first) for count in account.tiers)
