"""What many brokers and messages need: a model, a small cluster beside it, and what comes of both."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from paper_benchmarks.capacity.plan import COSTS_US, Flow, Machine, most_per_day, need
from paper_benchmarks.capacity.registries import Registries
from paper_benchmarks.capacity.simulation import simulate
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.payloads import BATCH, stored_bytes
from paper_benchmarks.pages.pictures import image, plots
from paper_benchmarks.pages.tables import figure, significant, table, text, whole
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from matplotlib.axes import Axes

    from paper_benchmarks.experiments.experiment import Bench

BILLION = 1e9
MACHINE = Machine()
FLOWS = {
    "a billion a day": Flow(messages_per_day=BILLION),
    "a billion a day, sent one by one": Flow(messages_per_day=BILLION, batch=1),
    "a billion a day, of 500 bytes": Flow(messages_per_day=BILLION, payload_bytes=500),
    "ten billion a day": Flow(messages_per_day=10 * BILLION),
}
SMALL = Registries(
    brokers=3, topics=100, partitions=4, groups=10, members=4, topics_of_group=10, producers=100, topics_of_producer=5
)
LARGE = replace(SMALL, brokers=1000, partitions=1, members=100, producers=1000)
CLUSTERS = {
    "3 brokers, groups of 4": SMALL,
    "100 brokers, groups of 20": replace(SMALL, brokers=100, partitions=1, members=20, producers=1000),
    "1000 brokers, groups of 100": LARGE,
    "1000 brokers, groups of 1000": replace(LARGE, members=1000),
    "1000 brokers, each topic on 10 of them": replace(LARGE, brokers=10),
}
"""The last one stands for a hundred clusters of ten, or for topics that are kept to ten brokers."""
TOLERANCE = 0.25


def measure(bench: Bench) -> dict[str, Any]:
    """Count what a small cluster asks of ZooKeeper."""
    seconds = bench.sized(toy=5.0, small=30.0, paper=120.0)
    members = bench.sized(toy=3, small=4, paper=6)
    registries = Registries(brokers=2, topics=2, partitions=4, members=members, topics_of_group=2, commit_interval_s=1)
    found = simulate(registries, seconds, bench.say)
    checks = [check._asdict() for check in found.checks]
    return {"registries": registries, "seconds": seconds, "zk_cpu_us": found.zk_cpu_us, "checks": checks}


def is_close(check: Mapping[str, Any]) -> bool:
    """Say whether a count is as predicted, but for claims that failed: a write each, or five reads, or a watch."""
    most = check["conflicts"] * (5 if check["what"].startswith("reads") else 1)
    off = check["counted"] - check["predicted"]
    return bool(abs(off - min(max(off, 0), most)) <= TOLERANCE * check["predicted"])


def costs_us(body: Mapping[str, Any], figures: Mapping[str, Any] | None) -> dict[str, float]:
    """Return what one message costs as figures 4 and 5 have it, with our defaults, which flush as we ship."""
    found = {name: cost_us for name, (cost_us, _) in COSTS_US.items()}
    for line in figures["lines"] if figures else ():
        if line["kind"] == OWN and line["flush"] == Flush.SHIPPED:
            found |= {name: cost_us for name, cost_us in _costs_of(line) if cost_us is not None}
    return found | {f"zk_{what}": cpu_us for what, cpu_us in body["zk_cpu_us"].items()}


def _costs_of(line: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    match line["do"], line["client"], line["batch"]:
        case "produce", "sync", batch if batch in {1, BATCH}:
            single = "_single" * (batch == 1)
            yield f"producer{single}", line["client_cpu_us"]
            yield f"broker_produce{single}", line["server_cpu_us"]
        case "consume", "batches", _:
            yield "consumer", line["client_cpu_us"]
            yield "broker_fetch", line["server_cpu_us"]


# The report ----------------------------------------------------------------------------------------------------------


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Say what brokers and ZooKeeper need by the costs in the results there are, and compare with the small cluster."""
    measured = pictures.parent / "figures.json"
    figures = json.loads(measured.read_text(encoding="utf-8"))["body"] if measured.exists() else None
    costs = costs_us(body, figures)
    with plots(pictures / "capacity.svg", 2, width=10, height=4) as [left, right]:
        _draw_brokers(left, costs)
        _draw_watches(right)
    rows = [(COSTS_US[name][1], cost_us) for name, cost_us in costs.items()]
    return "\n\n".join(
        [
            "What a thousand brokers and a billion messages a day need, from what one message was measured to cost.",
            *_messages(costs),
            image(pictures / "capacity.svg", "Brokers by messages a day, and watches by brokers"),
            *_zookeeper(costs),
            *_comparison(body),
            "### Costs",
            table(rows, [("CPU time", text(0)), ("us", figure(1))]),
        ]
    )


def _messages(costs: Mapping[str, float]) -> list[str]:
    rows = []
    for name, flow in FLOWS.items():
        asked = need(flow, costs)
        brokers = asked.brokers(MACHINE)
        bound = max(brokers, key=lambda each: brokers[each])
        rows.append(
            {
                **asdict(asked),
                "name": name,
                "mean_per_s": flow.mean_per_s,
                "day_bytes": flow.messages_per_day * stored_bytes(flow.payload_bytes),
                "brokers": f"{brokers[bound]}, {bound}" if brokers[bound] > 1 else 1,
            }
        )
    columns = [
        ("messages, of 200 bytes where not said", text("name")),
        ("mean/s", whole("mean_per_s")),
        ("brokers' cores", figure("broker_cores")),
        ("producers' cores", figure("producer_cores")),
        ("readers' cores", figure("consumer_cores")),
        ("Mb/s in", figure("in_bytes_per_s", unit=1e6 / 8)),
        ("Mb/s out", figure("out_bytes_per_s", unit=1e6 / 8)),
        ("GB a day", figure("day_bytes", unit=1e9)),
        ("TB kept", figure("kept_bytes", unit=1e12)),
        ("brokers, bounded by", text("brokers")),
    ]
    flow = FLOWS["a billion a day"]
    most = most_per_day(1000, flow, costs, MACHINE)
    bound = min(most, key=lambda each: most[each])
    bounds = ", ".join(f"{name} {significant(value / BILLION)}" for name, value in most.items())
    return [
        "### Messages",
        (
            f"Assumed: batches of 50, the busiest time at {flow.peak:g} times the mean, {flow.readers} groups"
            f" that read everything (one of them a mirror), {flow.retention_days:g} days kept, no compression,"
            f" no copies. A broker is one process on one core, with {MACHINE.disk_bytes / 1e12:g} TB and"
            f" {MACHINE.link_bits_per_s / 1e9:g} Gb/s; only {MACHINE.share:.0%} of each is planned with."
            " Cores, Mb/s: at the busiest time. An offline cluster takes the same again, with fewer readers."
        ),
        table(rows, columns),
        (
            "The paper speaks of hundreds of gigabytes and close to a billion messages a day: these few brokers take"
            f" that. A thousand such brokers take {significant(most[bound] / BILLION)} billion messages a day, bounded"
            f" by {bound} ({bounds} billion). With a billion a day, each of a thousand brokers has"
            f" {significant(flow.mean_per_s / 1000)} messages a second to take: what costs anything then is keeping"
            " track of them."
        ),
    ]


def _zookeeper(costs: Mapping[str, float]) -> list[str]:
    def cpu_s(writes: float, reads: float) -> str | None:
        return significant((writes * costs["zk_write"] + reads * costs["zk_read"]) / 1e6)

    columns = [
        ("100 topics, 10 groups of 10 topics each", lambda row: row[0]),
        ("znodes", lambda row: f"{row[1].znodes:,}"),
        ("watches", lambda row: f"{row[1].watches:,}"),
        ("writes/s", lambda row: significant(row[1].writes_per_s)),
        ("reads/s", lambda row: significant(row[1].reads_per_s)),
        ("ZooKeeper's cores", lambda row: cpu_s(row[1].writes_per_s, row[1].reads_per_s)),
        ("a broker goes: reads, a group", lambda row: f"{row[1].broker_goes().reads:,}"),
        ("all groups, ZooKeeper's CPU s", lambda row: cpu_s(*(row[1].groups * each for each in row[1].broker_goes()))),
    ]
    large = CLUSTERS["1000 brokers, groups of 1000"]
    return [
        "### ZooKeeper",
        (
            f"Assumed: commits every {SMALL.commit_interval_s:g} s, of every partition; sessions of"
            f" {SMALL.session_timeout_s:g} s; producers that know 5 topics each. A topic has four partitions"
            " on each of three brokers, else one on each."
        ),
        table(CLUSTERS.items(), columns),
        (
            "- **Writes** while nobody comes or goes are commits: one for each partition of each group in an"
            " interval, whatever the number of messages. A longer `autocommit.interval.ms` is all that it"
            " takes to have fewer.\n"
            "- **Watches** grow with members times brokers times topics, as every member watches every"
            f" broker's entry in every topic it reads, as 0.7 does: {large.watches_of_member:,.0f} for each"
            f" member of a group of {large.members} on {large.brokers} brokers. Besides,"
            f" {large.watches_of_brokers:,} are left by {large.brokers} brokers that started one after"
            " another.\n"
            "- **When a broker goes**, every member reads all of it again. That, and not what goes on all the"
            " time, is what bounds one cluster: the paper's masterless rebalance costs members times brokers"
            " times topics at once.\n"
            "- So many small clusters, or topics that are kept to a few brokers, carry a thousand brokers;"
            " one cluster in which each topic is on each broker does not."
        ),
    ]


def _comparison(body: Mapping[str, Any]) -> list[str]:
    """Put the model beside what a small cluster's ZooKeeper counted."""
    registries = body["registries"]
    columns = [
        ("", text("what")),
        ("model", figure("predicted")),
        ("counted", figure("counted")),
        ("off", lambda check: f"{check['counted'] / check['predicted'] - 1:+.0%}"),
        ("claims that failed", lambda check: check["conflicts"] or None),
        (f"within {TOLERANCE:.0%}", lambda check: "yes" if is_close(check) else "no"),
    ]
    return [
        "### The model beside a small cluster",
        (
            f"{registries['brokers']} brokers, {registries['topics']} topics with {registries['partitions']}"
            f" partitions on each, a group of {registries['members']}, commits every"
            f" {registries['commit_interval_s']:g} s; counted by ZooKeeper (`srvr`, `mntr`), commits for"
            f" {body['seconds']:g} s."
        ),
        table(body["checks"], columns),
        (
            "A claim fails when it comes before the other member has let go: timing, of which the model knows"
            " nothing. Each is one more write, about five reads and at most one more watch: the last column allows"
            " for them. Leases and audits fall into an interval by chance, and so do the reads that are taken off for"
            " them when the broker goes."
        ),
    ]


def _draw_brokers(axes: Axes, costs: Mapping[str, float]) -> None:
    days = [10 ** (exponent / 10) for exponent in range(80, 131)]
    needed = [need(Flow(messages_per_day=each), costs).machines(MACHINE) for each in days]
    for name, colour in (("processor", "#0b6e4f"), ("disk", "#e07a1f"), ("network", "#1d6fb8")):
        axes.plot(days, [each[name] for each in needed], color=colour, label=name)
    axes.axvline(BILLION, color="#999999", linestyle="--", linewidth=1)
    axes.annotate("a billion", (BILLION, 3000), xytext=(4, 0), textcoords="offset points", color="#777777")
    _arrange(axes, "messages a day, of 200 bytes", "brokers that it takes", "Brokers")
    axes.set_ylim(0.1, 10_000)


def _draw_watches(axes: Axes) -> None:
    brokers = [3, 10, 30, 100, 300, 1000]
    for topics, colour in ((1, "#1d6fb8"), (10, "#0b6e4f"), (100, "#e07a1f")):
        for share, style in ((0.1, "-"), (1.0, "--")):
            groups = [
                replace(LARGE, brokers=each, members=max(int(each * share), 1), topics=topics, topics_of_group=topics)
                for each in brokers
            ]
            size = "a member for 10 brokers" if share < 1 else "as many members as brokers"
            watches = [each.members * each.watches_of_member for each in groups]
            axes.plot(brokers, watches, color=colour, linestyle=style, label=f"{topics} topics, {size}")
    _arrange(axes, "brokers", "watches of one group", "Watches, each topic on each broker")


def _arrange(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    axes.legend(fontsize=7)


EXPERIMENT = Experiment("capacity", "Capacity", measure, chapter)
