"""The paper's two machines and 1 Gb/s: whether one producer almost saturates the link."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.capacity.costs import sent_bytes
from paper_benchmarks.experiment import Experiment
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import Run, produce
from paper_benchmarks.network import GIGABIT, Machines, NoNetworkError, halves, pin, pinned, two_machines
from paper_benchmarks.payloads import BATCH
from paper_benchmarks.pictures import bars, colour, image, picture
from paper_benchmarks.rounds import figures_of, in_turn, median
from paper_benchmarks.systems.kafka import FLUSH_SETTINGS, KIND, OWN, own_broker
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.rounds import Figures
    from paper_benchmarks.systems.kafka import KafkaBroker

LOOPBACK, LINK = "loopback", "1 Gb/s"
PICTURE = "link.svg"


class Line(NamedTuple):
    """Which client sends how many messages at once."""

    title: str
    client: str
    batch: int


LINES = (
    Line("SyncProducer, batch 50", "sync", BATCH),
    Line("SyncProducer, batch 1", "sync", 1),
    Line("a socket, batch 50", "raw", BATCH),
)

TEXT = f"""\
The paper's producer and broker were two machines with 1 Gb/s between them, and one producer at batch 50 "almost
saturates the link": 480,000 messages of 209 bytes are 803 Mb/s. Here the producer is in a network namespace of its own,
behind a virtual link that `tc` holds to {GIGABIT / 1e9:g} Gb/s each way; in the same rounds it sends over loopback.
Both ends keep to processors of their own. Flushed asynchronously. The socket sends what was encoded before. Mb/s are
those of requests: about 5% more are on the link, for the headers of TCP, IP and Ethernet."""


def measure(bench: Bench) -> dict[str, Any]:
    """Produce over loopback and over the link in turn; over loopback alone where there can be no link."""
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

        def once(name: str) -> Run:
            way, title = name.split(": ")
            line = next(each for each in LINES if each.title == title)
            batches = bench.messages(toy=20, small=10_000, paper=50_000)
            messages = batches * (BATCH if line.batch > 1 else 20)
            with ExitStack() as there:
                there.enter_context(pinned(far))
                if way == LINK:
                    assert machines is not None
                    there.enter_context(machines.far())
                return produce(KIND, brokers[way], line.client, messages, batch=line.batch)

        names = [f"{way}: {line.title}" for line in LINES for way in brokers]
        samples = in_turn(bench, names, once)
    return {
        "bits_per_s": GIGABIT,
        "missing": missing,
        "processors": {"broker": sorted(near), "producer": sorted(far)},
        "samples": samples,
    }


def share(body: Mapping[str, Any]) -> float | None:
    """Return the share of the link that the producer's batches of 50 take; None where there was no link."""
    if body["missing"]:
        return None
    return _megabits(figures_of(body["samples"]))[f"{LINK}: {LINES[0].title}"] * 1e6 / float(body["bits_per_s"])


def _megabits(figures: Mapping[str, Figures]) -> dict[str, float]:
    request_bytes = {line.title: sent_bytes(200, line.batch) for line in LINES}
    return {name: each.rate.median * request_bytes[name.split(": ")[1]] * 8 / 1e6 for name, each in figures.items()}


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Put rates and shares of the link into a table, and draw megabits a second."""
    figures = figures_of(body["samples"])
    megabits = _megabits(figures)
    with picture(pictures / PICTURE, width=8, height=0.5 + 0.45 * len(megabits)) as axes:
        bars(axes, megabits, colour(OWN), "Mb/s of requests")
        if not body["missing"]:
            limit = body["bits_per_s"] / 1e6
            axes.set_xlim(right=1.05 * max(limit, *megabits.values()))
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
    rows = [
        (
            name,
            *map(significant, (each.rate.lowest, each.rate.median, each.rate.highest, megabits[name])),
            f"{megabits[name] * 1e6 / body['bits_per_s']:.0%}" if name.startswith(LINK) else None,
            significant(each.client_cpu_us.median),
            significant(median(each.server_cpu_us)),
        )
        for name, each in figures.items()
    ]
    columns = (
        "way, client",
        "messages/s, lowest",
        "median",
        "highest",
        "Mb/s",
        "share of the link",
        "client, CPU us",
        "broker, CPU us",
    )
    parts = [TEXT, image(pictures / PICTURE, "Mb/s over loopback and over 1 Gb/s"), table(columns, rows)]
    if body["missing"]:
        parts.append(f"The link is left out: {body['missing']}.")
    return "\n\n".join(parts)


EXPERIMENT = Experiment("link", "Two machines and 1 Gb/s", measure, chapter)
