"""CAPACITY.md: the model's assumptions, what it says, and how it compares with a small cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paper_benchmarks.capacity.costs import MEANINGS, Costs, sent_bytes, stored_bytes
from paper_benchmarks.capacity.plan import Flow, Machine, most_per_day, need
from paper_benchmarks.capacity.registries import Registries
from paper_benchmarks.markdown import number, significant, table
from paper_benchmarks.pictures import image, plots

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes

PICTURE = "capacity.svg"
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
_BROKERS = [3, 10, 30, 100, 300, 1000]


def page(body: Mapping[str, Any], costs: Costs, pictures: Path) -> str:
    """Draw the picture and write the page; `body` is what the simulation found."""
    draw(pictures / PICTURE, costs)
    return "\n\n".join(
        [
            "# Capacity",
            (
                "What a thousand brokers and a billion messages a day need, from what one message was measured to cost."
                " Written by `python -m paper_benchmarks capacity`; the model is code, in `capacity/`."
            ),
            *_brokers(costs),
            image(pictures / PICTURE, "Brokers by messages a day, and watches by brokers"),
            *_zookeeper(costs),
            *comparison(body),
            *_costs(costs),
        ]
    )


# Brokers -------------------------------------------------------------------------------------------------------------


def _brokers(costs: Costs) -> list[str]:
    rows = []
    for name, flow in FLOWS.items():
        asked = need(flow, costs)
        brokers = asked.brokers(MACHINE)
        bound = max(brokers, key=lambda each: brokers[each])
        rows.append(
            (
                name,
                number(flow.mean_per_s),
                significant(asked.broker_cores),
                significant(asked.producer_cores),
                significant(asked.consumer_cores),
                significant(asked.in_bytes_per_s * 8 / 1e6),
                significant(asked.out_bytes_per_s * 8 / 1e6),
                significant(flow.messages_per_day * stored_bytes(flow.payload_bytes) / 1e9),
                significant(asked.kept_bytes / 1e12),
                f"{brokers[bound]}, {bound}" if brokers[bound] > 1 else 1,
            )
        )
    columns = (
        "messages, of 200 bytes where not said",
        "mean/s",
        "brokers' cores",
        "producers' cores",
        "readers' cores",
        "Mb/s in",
        "Mb/s out",
        "GB a day",
        "TB kept",
        "brokers, bounded by",
    )
    flow = FLOWS["a billion a day"]
    most = most_per_day(1000, flow, costs, MACHINE)
    bound = min(most, key=lambda each: most[each])
    return [
        "## Messages",
        (
            f"Assumed: batches of 50, the busiest time at {flow.peak:g} times the mean, {flow.readers} groups"
            f" that read everything (one of them a mirror), {flow.retention_days:g} days kept, no compression,"
            f" no copies. A broker is one process on one core, with {MACHINE.disk_bytes / 1e12:g} TB and"
            f" {MACHINE.link_bits_per_s / 1e9:g} Gb/s; only {MACHINE.share:.0%} of each is planned with."
            " Cores, Mb/s: at the busiest time. An offline cluster takes the same again, with fewer readers."
        ),
        table(columns, rows),
        "The paper speaks of hundreds of gigabytes and close to a billion messages a day: these few brokers take that.",
        f"A thousand such brokers take {significant(most[bound] / BILLION)} billion messages a day, bounded by"
        f" {bound} ("
        + ", ".join(f"{name} {significant(value / BILLION)}" for name, value in most.items())
        + " billion). With a billion a day, each of a thousand brokers has"
        f" {significant(flow.mean_per_s / 1000)} messages a second to take: what costs anything then is keeping track"
        " of them.",
    ]


# ZooKeeper -----------------------------------------------------------------------------------------------------------


def _zookeeper(costs: Costs) -> list[str]:
    columns = (
        "100 topics, 10 groups of 10 topics each",
        "znodes",
        "watches",
        "writes/s",
        "reads/s",
        "ZooKeeper's cores",
        "a member comes: writes",
        "reads",
        "a broker goes: reads, a group",
        "all groups, ZooKeeper's CPU s",
    )
    rows = []
    for name, each in CLUSTERS.items():
        comes, goes = each.member_comes(), each.broker_goes()
        cores = (each.writes_per_s * costs.zk_write_us + each.reads_per_s * costs.zk_read_us) / 1e6
        busy_s = each.groups * (goes.writes * costs.zk_write_us + goes.reads * costs.zk_read_us) / 1e6
        rows.append(
            (
                name,
                number(each.znodes),
                number(each.watches),
                significant(each.writes_per_s),
                significant(each.reads_per_s),
                significant(cores),
                number(comes.writes),
                number(comes.reads),
                number(goes.reads),
                significant(busy_s),
            )
        )
    large = CLUSTERS["1000 brokers, groups of 1000"]
    return [
        "## ZooKeeper",
        (
            f"Assumed: commits every {SMALL.commit_interval_s:g} s, of every partition; sessions of"
            f" {SMALL.session_timeout_s:g} s; producers that know 5 topics each. A topic has four partitions"
            " on each of three brokers, else one on each."
        ),
        table(columns, rows),
        (
            "- **Writes** while nobody comes or goes are commits: one for each partition of each group in an"
            " interval, whatever the number of messages. A longer `autocommit.interval.ms` is all that it"
            " takes to have fewer.\n"
            "- **Watches** grow with members times brokers times topics, as every member watches every"
            f" broker's entry in every topic it reads, as 0.7 does: {number(large.watches_of_member)} for each"
            f" member of a group of {large.members} on {large.brokers} brokers. Besides,"
            f" {number(large.watches_of_brokers)} are left by {large.brokers} brokers that started one after"
            " another.\n"
            "- **When a broker goes**, every member reads all of it again. That, and not what goes on all the"
            " time, is what bounds one cluster: the paper's masterless rebalance costs members times brokers"
            " times topics at once.\n"
            "- So many small clusters, or topics that are kept to a few brokers, carry a thousand brokers;"
            " one cluster in which each topic is on each broker does not."
        ),
    ]


def comparison(body: Mapping[str, Any]) -> list[str]:
    """Put the model beside what a small cluster's ZooKeeper counted."""
    registries = body["registries"]
    rows = []
    for check in body["checks"]:
        off = check["counted"] / check["predicted"] - 1
        rows.append(
            (
                check["what"],
                significant(check["predicted"]),
                significant(check["counted"]),
                f"{off:+.0%}",
                check["conflicts"] or None,
                "yes" if is_close(check) else "no",
            )
        )
    return [
        "## The model beside a small cluster",
        (
            f"{registries['brokers']} brokers, {registries['topics']} topics with {registries['partitions']}"
            f" partitions on each, a group of {registries['members']}, commits every"
            f" {registries['commit_interval_s']:g} s; counted by ZooKeeper (`srvr`, `mntr`), commits for"
            f" {body['seconds']:g} s."
        ),
        table(("", "model", "counted", "off", "claims that failed", f"within {TOLERANCE:.0%}"), rows),
        (
            "A claim fails when it comes before the other member has let go: timing, of which the model knows"
            " nothing. Each is one more write, about five reads and at most one more watch: the last column allows"
            " for them. Leases and audits fall into an interval by chance, and so do the reads that are taken off for"
            " them where somebody comes or goes."
        ),
    ]


def is_close(check: Mapping[str, Any]) -> bool:
    """Say whether a count is as predicted, but for claims that failed."""
    most = check["conflicts"] * (5 if check["what"].startswith("reads") else 1)
    off = check["counted"] - check["predicted"]
    return bool(abs(off - min(max(off, 0), most)) <= TOLERANCE * check["predicted"])


# Costs ---------------------------------------------------------------------------------------------------------------


def _costs(costs: Costs) -> list[str]:
    rows = [
        (meaning, significant(value), costs.sources.get(name, "as measured before"))
        for name, meaning in MEANINGS.items()
        if (value := getattr(costs, name)) is not None
    ]
    return [
        "## What was measured",
        (
            f"CPU time. A message of 200 bytes takes {stored_bytes(200)} on disk and of a fetch, and"
            f" {significant(sent_bytes(200, 50))} of a request with 50 of them,"
            f" {significant(sent_bytes(200, 1))} of its own."
        ),
        table(("", "us", "from"), rows),
    ]


# The picture ---------------------------------------------------------------------------------------------------------


def draw(path: Path, costs: Costs) -> None:
    """Draw brokers by messages a day, and watches of one group by brokers."""
    with plots(path, 2, width=10, height=4) as [left, right]:
        _draw_brokers(left, costs)
        _draw_watches(right)


def _draw_brokers(axes: Axes, costs: Costs) -> None:
    flow = FLOWS["a billion a day"]
    days = [10 ** (exponent / 10) for exponent in range(80, 131)]
    needed = [need(replace(flow, messages_per_day=each), costs) for each in days]
    for name, values, colour in (
        ("processor", [each.broker_cores for each in needed], "#0b6e4f"),
        ("disk, 7 days", [each.kept_bytes / MACHINE.disk_bytes for each in needed], "#e07a1f"),
        ("network", [each.out_bytes_per_s / (MACHINE.link_bits_per_s / 8) for each in needed], "#1d6fb8"),
    ):
        axes.plot(days, [value / MACHINE.share for value in values], color=colour, label=name)
    axes.axvline(BILLION, color="#999999", linestyle="--", linewidth=1)
    axes.annotate("a billion", (BILLION, 3000), xytext=(4, 0), textcoords="offset points", color="#777777")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.1, 10_000)
    axes.set_xlabel("messages a day, of 200 bytes")
    axes.set_ylabel("brokers that it takes")
    axes.set_title("Brokers")
    axes.legend(loc="lower right")


def _draw_watches(axes: Axes) -> None:
    for topics, colour in ((1, "#1d6fb8"), (10, "#0b6e4f"), (100, "#e07a1f")):
        for share, style in ((0.1, "-"), (1.0, "--")):
            watches = []
            for brokers in _BROKERS:
                members = max(int(brokers * share), 1)
                each = replace(LARGE, brokers=brokers, members=members, topics=topics, topics_of_group=topics)
                watches.append(members * each.watches_of_member)
            size = "a member for 10 brokers" if share < 1 else "as many members as brokers"
            axes.plot(_BROKERS, watches, color=colour, linestyle=style, label=f"{topics} topics, {size}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("brokers")
    axes.set_ylabel("watches of one group")
    axes.set_title("Watches, each topic on each broker")
    axes.legend(loc="upper left", fontsize=7)
