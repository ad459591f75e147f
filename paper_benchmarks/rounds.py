"""Lines that are measured in turn, again and again, so that whatever else runs affects all of them alike."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.experiment import Size
from paper_benchmarks.samples import Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.measure import Run

ROUNDS = {Size.TOY: 1, Size.SMALL: 3, Size.PAPER: 5}


class Figures(NamedTuple):
    """What one line gave in all its rounds. CPU time is for a message; None where it is not known."""

    rate: Spread
    client_cpu_us: Spread
    server_cpu_us: Spread | None


def median(spread: Spread | None) -> float | None:
    """Return the middle of what is known."""
    return None if spread is None else spread.median


def in_turn(bench: Bench, lines: Sequence[str], measure: Callable[[str], Run]) -> list[dict[str, Any]]:
    """Measure all lines, once in each round."""
    samples = []
    for number in range(1, ROUNDS[bench.size] + 1):
        for line in lines:
            bench.say(f"round {number}: {line}")
            samples.append({"round": number, "line": line, "run": measure(line)})
    return samples


def figures_of(samples: Iterable[Mapping[str, Any]]) -> dict[str, Figures]:
    """Return the figures of each line, from what JSON holds of the samples; rates are those of whole runs."""
    runs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for sample in samples:
        runs[sample["line"]].append(sample["run"])
    return {line: Figures(*(_spread(several, key) for key in _KEYS)) for line, several in runs.items()}  # type: ignore[arg-type]


_KEYS = ("rate", "client_cpu_us", "server_cpu_us")


def _spread(runs: Iterable[Mapping[str, Any]], key: str) -> Spread | None:
    return Spread.of([run[key] for run in runs])
