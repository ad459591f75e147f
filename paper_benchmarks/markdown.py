"""Tables and figures as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; None is a dash, and columns after the first are aligned to the right."""
    lines = [" | ".join(columns), " | ".join(["---", *["---:"] * (len(columns) - 1)])]
    lines += [" | ".join("-" if each is None else str(each) for each in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def number(value: float | None, digits: int = 0) -> str | None:
    """Return 1,234.5, or None for what is not known."""
    return None if value is None else f"{value:,.{digits}f}"


def significant(value: float | None) -> str | None:
    """Return two or three digits that count: 0.0123, 1.23, 12.3, 123, 12,345."""
    if value is None:
        return None
    if value == 0:
        return "0"
    for limit, digits in ((0.1, 4), (1, 3), (10, 2), (100, 1)):
        if abs(value) < limit:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"
