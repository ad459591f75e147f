"""Tables and figures as Markdown. A column is its title and what makes its cell of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.measuring.samples import Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Column = tuple[str, Callable[[Any], object]]


def table(rows: Iterable[Any], columns: Sequence[Column]) -> str:
    """Return a table; None is a dash, and columns after the first are aligned to the right."""
    cells = [["-" if (cell := make(row)) is None else str(cell) for _, make in columns] for row in rows]
    lines = [[title for title, _ in columns], ["---", *["---:"] * (len(columns) - 1)], *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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


# What columns make of a row that is an object of JSON ----------------------------------------------------------------


def text(*path: str | int) -> Callable[[Any], Any]:
    """Return what finds a value in a row, by keys one below the other; None where there is none."""

    def found(row: Any) -> Any:
        for key in path:
            if row is None:
                return None
            row = row[key]
        return row

    return found


def figure(*path: str | int, unit: float = 1.0) -> Callable[[Any], str | None]:
    """Return what writes such a value by its digits that count, in a unit."""
    find = text(*path)
    return lambda row: None if (value := find(row)) is None else significant(value / unit)


def whole(*path: str | int, digits: int = 0) -> Callable[[Any], str | None]:
    """Return what writes such a value to the last digit."""
    find = text(*path)
    return lambda row: number(find(row), digits)


def spread_of(*path: str | int, whole: bool = False) -> Callable[[Any], str | None]:
    """Return what writes the figures of several rounds: the median, and the lowest and the highest in brackets."""
    find = text(*path)

    def found(row: Any) -> str | None:
        values = find(row)
        return brackets(Spread.of(values), whole=whole) if values else None

    return found


def brackets(spread: Spread, *, whole: bool = False) -> str:
    """Return the median of a spread, and the lowest and the highest in brackets, if there were several."""
    write = number if whole else significant
    ends = f" ({write(spread.lowest)} to {write(spread.highest)})" if spread.n > 1 else ""
    return f"{write(spread.median)}{ends}"


def cost_columns(server: str) -> list[Column]:
    """Return columns for CPU time of client and server."""
    return [("client, CPU us", spread_of("client_cpu_us")), (f"{server}, CPU us", spread_of("server_cpu_us"))]
