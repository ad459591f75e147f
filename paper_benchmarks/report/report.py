"""RESULTS.md: a chapter for each experiment that has results, in the order of the catalogue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiments.catalogue import EXPERIMENTS, experiment
from paper_benchmarks.experiments.experiment import beside, is_toy
from paper_benchmarks.report import claims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

HEAD = """\
# Results

Written by `python -m paper_benchmarks report` from the files in `results/`. [docs/benchmarks.md](../docs/benchmarks.md)
says how everything is measured. Figures of different machines do not compare; ratios of one run do, more or less.

The paper closes its own measurements with a caveat, and so does this report: the systems beside it do more than Kafka
did in 2011 (routing, transactions, delivery of single messages), and a lead over them is not what it was built for."""


def write_report(results: Path, output: Path) -> list[str]:
    """Write the report of all results in a directory; return the names of the experiments in it."""
    documents = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in EXPERIMENTS
        if (path := results / f"{name}.json").exists()
    }
    pictures = results / "pictures"
    chapters = [_chapter(name, document, pictures) for name, document in documents.items()]
    found = claims.chapter({name: each["body"] for name, each in documents.items() if not is_toy(each)})
    if found:
        chapters.insert(0, f"## The paper's claims\n\n{found}")
    output.write_text("\n\n".join([HEAD, *chapters]) + "\n", encoding="utf-8")
    return list(documents)


def _chapter(name: str, document: Mapping[str, Any], pictures: Path) -> str:
    found = experiment(name)
    return "\n\n".join(
        [f"## {found.title}", _conditions(document), found.chapter(document["body"], pictures).strip()],
    )


def _conditions(document: Mapping[str, Any]) -> str:
    machine, runs = document["machine"], document["runs"]
    others = [run["cores_used_by_others"] for run in runs]
    text = (
        f"`{document['benchmark']}`, size {_sizes(runs)}, {runs[0]['started'][:16]}: {machine['cores']} cores"
        f" ({machine['processor']}), {machine['memory_bytes'] / 2**30:.0f} GiB, Linux {machine['kernel']},"
        f" {machine['python']}, data on {machine['file_system']}; other processes kept"
        f" {_range(min(others), max(others))} cores busy; ZooKeeper {document['zookeeper']}."
    )
    if is_toy(document):
        text += " **Toy size: the figures mean nothing.**"
    left_out = "".join(f" Left out: {title} ({reason})." for title, reason in document["left_out"].items())
    return text + left_out


def _sizes(runs: Sequence[Mapping[str, Any]]) -> str:
    systems: dict[str, list[str]] = {}
    for run in runs:
        systems.setdefault(run["size"], []).extend(run["systems"])
    if len(systems) == 1:
        return next(iter(systems))
    return ", ".join(f"{size} ({', '.join(titles)})" for size, titles in systems.items())


def _range(lowest: float, highest: float) -> str:
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def default_output(results: Path) -> Path:
    """Return where the report of a directory of results lies."""
    return beside(results) / "RESULTS.md"
