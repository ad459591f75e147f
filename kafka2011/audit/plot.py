"""A picture of the audit: for each topic, how many messages each tier has counted, and where some are missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError, missing_extra

try:
    import matplotlib.dates
    from matplotlib.figure import Figure
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from kafka2011.audit.compare import WindowAccount

_WIDTH_INCHES = 10
_HEIGHT_INCHES = 3
_BAR_DAYS = 1e-4  # nine seconds
MAX_TOPICS = 50
"""The most topics in one picture; more would make it too tall to draw."""


def plot(accounts: Sequence[WindowAccount], path: Path) -> None:
    """Draw the accounts into a file, in the format that its suffix names. Raises KafkaError and OSError."""
    topics = sorted({account.topic for account in accounts})
    if len(topics) > MAX_TOPICS:
        raise KafkaError(f"{len(topics)} topics are too many for one picture: name up to {MAX_TOPICS}")
    figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES * max(len(topics), 1)), layout="constrained")
    for axes, topic in zip(figure.subplots(max(len(topics), 1), squeeze=False)[:, 0], topics, strict=False):
        _plot_topic(axes, topic, [account for account in accounts if account.topic == topic])
    try:
        figure.savefig(path)
    except ValueError as error:
        raise KafkaError(f"cannot draw into {path}: {error}") from error


def _plot_topic(axes: Axes, topic: str, accounts: list[WindowAccount]) -> None:
    times = [datetime.fromtimestamp(account.start_ms / 1000, UTC) for account in accounts]
    for number, first in enumerate(accounts[0].tiers):
        counts = [account.tiers[number].distinct for account in accounts]
        axes.plot(times, counts, marker=".", label=first.tier, linewidth=2.5 - min(number, 3) * 0.6)  # type: ignore[arg-type]
    gaps = [(time, account) for time, account in zip(times, accounts, strict=True) if account.has_gap]
    if gaps:
        missing = [sum(count.missing for count in account.tiers) for _, account in gaps]
        axes.bar([time for time, _ in gaps], missing, width=_BAR_DAYS, color="red", label="missing")  # type: ignore[arg-type]
        for time, _ in gaps:
            axes.axvline(time, color="red", linewidth=0.5)  # type: ignore[arg-type]
    axes.set_title(topic)
    axes.set_ylabel("distinct messages a window")
    axes.set_xlabel("published, UTC")
    axes.set_ylim(bottom=0)
    locator = matplotlib.dates.AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.legend()
