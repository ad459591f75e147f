"""The paper's two machines and 1 Gb/s: whether one producer almost saturates the link."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.measure import produce
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.network import GIGABIT, Machines, NoNetworkError, halves, pin, pinned, two_machines
from paper_benchmarks.measuring.payloads import BATCH, sent_bytes
from paper_benchmarks.measuring.spread import figures
from paper_benchmarks.pages.pictures import bars, colour, image, picture
from paper_benchmarks.pages.tables import cost_columns, figure, spread_columns, table, text
from paper_benchmarks.systems.kafka2011 import FLUSH_SETTINGS, KIND, OWN, own_broker
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.clients.measure import Run
    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker

LOOPBACK, LINK = "loopback", "1 Gb/s"
PICTURE = "link.svg"
LINES = {
    "SyncProducer, batch 50": ("sync", BATCH),
    "SyncProducer, batch 1": ("sync", 1),
    "a socket, batch 50": ("raw", BATCH),
}
"""Which client sends how many messages at once."""

TEXT = f"""\
The paper's producer and broker were two machines with 1 Gb/s between them, and one producer at batch 50 "almost
saturates the link": 480,000 messages of 209 bytes are 803 Mb/s. Here the producer is in a network namespace of its own,
behind a virtual link that `tc` holds to {GIGABIT / 1e9:g} Gb/s each way; in the same rounds it sends over loopback.
Both ends keep to processors of their own. Flushed asynchronously. The socket sends what was encoded before. Mb/s are
those of requests: about 5% more are on the link, for the headers of TCP, IP and Ethernet."""


def measure(bench: Bench) -> dict[str, Any]:
    """Produce over loopback and over the link in turn; over loopback alone where there can be no link."""
    batches = bench.sized(toy=20, small=10_000, paper=50_000)
    with ExitStack() as stack:
        machines: Machines | None = None
        missing = ""
        try:
            machines = stack.enter_context(two_machines())
        except NoNetworkError as error:
            missing = str(error)
        near, far = halves()
        brokers: dict[str, KafkaBroker] = {}
        for way, host in {LOOPBACK: "127.0.0.1", **({LINK: machines.address} if machines else {})}.items():
            bench.say(f"kafka2011 at {host}: start")
            properties = {**FLUSH_SETTINGS[Flush.ASYNCHRONOUS], "bind.address": host}
            brokers[way] = stack.enter_context(own_broker(bench.data, properties=properties))
            for pid in brokers[way].pids():
                pin(pid, near)

        def once(line: tuple[str, str]) -> Run:
            way, (client, batch) = line[0], LINES[line[1]]
            with ExitStack() as there:
                there.enter_context(pinned(far))
                if way == LINK:
                    assert machines is not None
                    there.enter_context(machines.far())
                return produce(KIND, brokers[way], client, batches * (BATCH if batch > 1 else 20), batch=batch)

        found = bench.in_turn([(way, line) for line in LINES for way in brokers], once)
    return {
        "bits_per_s": GIGABIT,
        "missing": missing,
        "processors": {"broker": sorted(near), "producer": sorted(far)},
        "lines": [{"way": way, "line": line, **figures(samples)} for (way, line), samples in found.items()],
    }


def megabits(line: Mapping[str, Any]) -> float:
    """Return Mb/s of requests; of medians."""
    return float(line["rate"][1] * sent_bytes(200, LINES[line["line"]][1]) * 8 / 1e6)


def share(body: Mapping[str, Any]) -> float | None:
    """Return the share of the link that the producer's batches of 50 take; None where there was no link."""
    over = [line for line in body["lines"] if line["way"] == LINK]
    return megabits(over[0]) * 1e6 / float(body["bits_per_s"]) if over else None


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Put rates and shares of the link into a table, and draw megabits a second."""
    rows = [{**line, "name": f"{line['way']}: {line['line']}", "mb": megabits(line)} for line in body["lines"]]
    limit = body["bits_per_s"] / 1e6
    with picture(pictures / PICTURE, width=8, height=0.5 + 0.45 * len(rows)) as axes:
        bars(axes, {row["name"]: row["mb"] for row in rows}, colour(OWN), "Mb/s of requests")
        if not body["missing"]:
            axes.set_xlim(right=1.05 * max(limit, *(row["mb"] for row in rows)))
            axes.axvline(limit, color="#c1121f", linestyle="--", linewidth=1)
            axes.annotate(
                "1 Gb/s",
                (limit, 1),
                (-4, 0),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="right",
                va="top",
                color="#c1121f",
                fontsize=8,
            )
    columns = [
        ("way, client", text("name")),
        *spread_columns("messages/s", "rate"),
        ("Mb/s", figure("mb")),
        ("share of the link", lambda row: f"{row['mb'] / limit:.0%}" if row["way"] == LINK else None),
        *cost_columns("broker"),
    ]
    parts = [TEXT, image(pictures / PICTURE, "Mb/s over loopback and over 1 Gb/s"), table(rows, columns)]
    if body["missing"]:
        parts.append(f"The link is left out: {body['missing']}.")
    return "\n\n".join(parts)


EXPERIMENT = Experiment("link", "Two machines and 1 Gb/s", measure, chapter)
