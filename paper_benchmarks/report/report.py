"""RESULTS.md, one page of headlines, claims and pictures, and DETAILS.md behind it, a chapter for each experiment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiments import beside, latency
from paper_benchmarks.experiments.catalogue import BURSTS, EXPERIMENTS, experiment
from paper_benchmarks.experiments.experiment import LEAST_S, Size, pages_of
from paper_benchmarks.experiments.systems import LEAST_BYTES, MOST_TIMES
from paper_benchmarks.pages.pictures import image
from paper_benchmarks.report import claims, figures, headlines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Document = Mapping[str, Any]

RESULTS_MD, DETAILS_MD = "RESULTS.md", "DETAILS.md"
_QUIET_CORES = 0.2
HEAD = """\
# Results

Written by `python -m paper_benchmarks report` from the files in `results/`; [DETAILS.md]({details}) has every line, the
floors of our own paths, and the other experiments, and [docs/how-to/benchmarks.md]({document}) says how everything is
measured. Figures of different machines do not compare. A figure is the median of all rounds, in which everything takes
its turn, with the lowest and the highest in brackets; it is that of whole runs, until the last message was handled.
There is a verdict only where the spreads do not overlap.

The paper closes its own measurements with a caveat, and so does this report: some of the systems beside ours do more
than Kafka did in 2011 (routing, transactions, replication, delivery of single messages)."""
_PROMISES = """\
A row compares what makes the same promise in the same way: confirmed sends with `acks=all` alone, unconfirmed ones with
`acks=0`, lists with lists, one message a call with one message a call. On one broker *confirmed* means appended, on
both sides. As shipped, ours flushes every 500 messages, and Kafka 4 does not flush at all. With two replicas a
confirmed message of ours was fsynced by both, and one of Kafka's by neither."""
_LONG = """\
Each line ran for at least {seconds:g} s and {gigabytes:g} GB, or for {most:g} s where that takes longer, after a
warm-up of the same kind. *Tuned* stands for the settings that a sweep found best, for ours and for the others;
DETAILS.md has them, and each one's reason."""
_BURSTS = """\
**These are bursts**: each line handles a fixed number of messages, and many lines last less than a second. For figures
that hold for minutes, run `python -m paper_benchmarks systems --size paper`."""
_FIGURES = """\
Both axes are logarithmic. A line ends at the rate of the whole run, as in the tables; it is the median of all rounds,
and the band around it reaches from the lowest to the highest. Of every other system it is the fastest of its libraries.
Grey and dashed: the paper's, as read off its pictures."""
_REASONS = """\
Medians, with marks from the lowest to the highest; 3 and 4 are counted once. 1, 2 and 6: longer, or higher, is better;
3, 4 and 5: shorter is better."""
_NOTHING = "Nothing was measured yet: `make bench`."


def write_report(results: Path, output: Path) -> list[str]:
    """Write both pages from all results in a directory; return the names of the experiments in them."""
    first, *others = EXPERIMENTS
    documents = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in (first, BURSTS, *others)
        if (path := results / f"{name}.json").exists()
    }
    pictures = results / "pictures"
    chapters = ["# Details", f"Behind [{RESULTS_MD}]({RESULTS_MD}): every experiment that was run, line by line."]
    for name, document in documents.items():
        if name == beside.EXPERIMENT.name:
            continue  # all of it is on the first page
        found = experiment(document["benchmark"])
        title = f"{found.title}, bursts" if name == BURSTS else found.title
        chapters += [f"## {title}", f"`{found.name}`, for {found.tells}.", conditions(document)]
        chapters.append(found.chapter(document["body"], pictures).strip())
    (output / DETAILS_MD).write_text("\n\n".join(chapters) + "\n", encoding="utf-8")
    (output / RESULTS_MD).write_text("\n\n".join(_first_page(documents, pictures)) + "\n", encoding="utf-8")
    return list(documents)


def _first_page(documents: Mapping[str, Document], pictures: Path) -> list[str]:
    parts = [HEAD.format(details=DETAILS_MD, document="../docs/how-to/benchmarks.md")]
    side_by_side = documents.get("systems") or documents.get(BURSTS)
    if side_by_side is not None:
        parts += ["## Ours and the best of all others", conditions(side_by_side), _PROMISES, _extent(side_by_side)]
        body = side_by_side["body"]
        parts += headlines.tables(body)
        for name, do in ((figures.FIGURE_4, "produce"), (figures.FIGURE_5, "consume")):
            figures.draw_figure(body, pictures / name, do)
        parts += ["## Figures 4 and 5", _FIGURES]
        parts += [image(pictures / figures.FIGURE_4, "Figure 4"), image(pictures / figures.FIGURE_5, "Figure 5")]
    parts += _beside(documents, pictures)
    if "reasons" in documents:
        figures.draw_reasons(documents["reasons"]["body"], pictures / figures.REASONS)
        parts += ["## The paper's reasons", conditions(documents["reasons"]), _REASONS]
        parts.append(image(pictures / figures.REASONS, "The paper's reasons"))
    bodies = {name: each["body"] for name, each in documents.items() if each["size"] != Size.TOY}
    if BURSTS in bodies:
        bodies.setdefault("systems", bodies[BURSTS])
    if found := claims.chapter(bodies):
        parts += ["## The paper's claims", found]
    return parts if documents else [*parts, _NOTHING]


def _beside(documents: Mapping[str, Document], pictures: Path) -> list[str]:
    """Return the tables beside Kafka 4: of latency, and of what grows."""
    parts = []
    if "latency" in documents and (delivery := latency.beside_kafka(documents["latency"]["body"])):
        parts += [conditions(documents["latency"]), *delivery]
    if (found := documents.get(beside.EXPERIMENT.name)) is not None:
        parts += [conditions(found), beside.chapter(found["body"], pictures)]
    return ["## Beside Kafka 4", *parts] if parts else []


def _extent(document: Document) -> str:
    if document["size"] == Size.PAPER and "seconds" in document:
        least_s = document["seconds"]
        gigabytes = LEAST_BYTES / 1e9 * least_s / LEAST_S
        return _LONG.format(seconds=least_s, gigabytes=gigabytes, most=least_s * MOST_TIMES)
    return _BURSTS


def conditions(document: Document) -> str:
    """Say where and when a document was measured, and what else ran meanwhile."""
    machine, others = document["machine"], document["cores_used_by_others"]
    text = (
        f"Size {document['size']}, {document['started'][:16]}: {machine['cores']} cores ({machine['processor']}),"
        f" {machine['memory_bytes'] / 2**30:.0f} GiB, Linux {machine['kernel']}, {machine['python']}, data on"
        f" {machine['file_system']}; other processes kept {others[1]} cores busy ({others[0]} to {others[2]})."
    )
    if document["size"] == Size.TOY:
        text += " **Toy size: the figures mean nothing.**"
    elif others[1] > _QUIET_CORES:
        text += " **The machine was not quiet: rates say little here, processor time and ratios more.**"
    return text + "".join(f" Left out: {title} ({reason})." for title, reason in document["left_out"].items())


def default_output(results: Path) -> Path:
    """Return the directory in which the report of a directory of results lies."""
    return pages_of(results)
