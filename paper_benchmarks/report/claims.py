"""The paper's claims that have a figure in them, and what was measured of each: reproduces, does not, and why."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.experiments import link, ratios
from paper_benchmarks.experiments import section_3_1_page_cache as page_cache
from paper_benchmarks.experiments import section_3_1_sendfile as sendfile
from paper_benchmarks.experiments import section_5_compact_format as storage
from paper_benchmarks.experiments import section_5_no_acknowledgement as acknowledgement
from paper_benchmarks.experiments import section_5_no_delivery_state as state
from paper_benchmarks.experiments.accumulation import shares
from paper_benchmarks.pages.tables import significant, table
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Bodies = Mapping[str, Mapping[str, Any]]
    """What experiments measured, by their names."""

REPRODUCES, PARTLY, DOES_NOT = "reproduces", "in part", "does not"
_NEARLY = 0.9
"""Of a figure of the paper; below that it is not reached."""


class Finding(NamedTuple):
    """What was measured, and how it stands to the paper."""

    ours: str
    verdict: str


class Claim(NamedTuple):
    """One claim, in our words, and why it stands as it does. `find` gives None where nothing was measured of it."""

    section: str
    says: str
    find: Callable[[Bodies], Finding | None]
    why: str


def _rate(bodies: Bodies, kind: str, do: str, line: str = "") -> float | None:
    """Return the steady rate of a kind's run of figures 4 and 5, flushed asynchronously: its first of that name."""
    for each in bodies.get("figures", {}).get("lines", ()):
        if (each["kind"], each["flush"], each["do"]) == (kind, Flush.ASYNCHRONOUS, do) and line in each["line"]:
            return float(each["steady_rate"])
    return None


def _judge(ours: str, holds: bool) -> Finding:
    return Finding(ours, REPRODUCES if holds else DOES_NOT)


def _producer_rates(bodies: Bodies) -> Finding | None:
    one, fifty = (_rate(bodies, OWN, "produce", f"SyncProducer, batch {batch}") for batch in (1, 50))
    if one is None or fifty is None:
        return None
    reached = one >= _NEARLY * 50_000 and fifty >= _NEARLY * 400_000
    return Finding(f"{significant(one)} and {significant(fifty)}", REPRODUCES if reached else PARTLY)


def _over(bodies: Bodies, other: str, title: str, do: str, least: float) -> Finding | None:
    """Compare our usual line with another system's, in the run of figures 4 and 5."""
    ours = _rate(bodies, OWN, do, "batch 50" if do == "produce" else "batches()")
    one = _rate(bodies, OWN, do, "batch 1") if do == "produce" else None
    theirs = _rate(bodies, other, do)
    if ours is None or theirs is None:
        return None
    text = f"{significant(ours / theirs)} x"
    if one is not None:
        text += f" at batch 50, {significant(one / theirs)} x at batch 1"
    return _judge(f"{text} ({title} {significant(theirs)})", ours / theirs >= _NEARLY * least)


def _batching(bodies: Bodies) -> Finding | None:
    found = bodies.get("table", {}).get("ratios", {}).get(ratios.BATCHING)
    return found and _judge(f"{significant(found[1])} x", found[1] >= _NEARLY * 8)


def _link(bodies: Bodies) -> Finding | None:
    share = link.share(bodies["link"]) if "link" in bodies else None
    return None if share is None else _judge(f"{share:.0%} of it, in requests", share >= _NEARLY * 0.8)


def _consumer_rate(bodies: Bodies) -> Finding | None:
    rate = _rate(bodies, OWN, "consume", "batches()")
    return None if rate is None else _judge(str(significant(rate)), rate >= _NEARLY * 22_000)


def _acknowledgement(bodies: Bodies) -> Finding | None:
    if "ablation" not in bodies:
        return None
    times = acknowledgement.slower(bodies["ablation"]["acknowledgement"])["batch 1, waited for one by one"]
    return _judge(f"{significant(times)} x", times >= _NEARLY * 2)


def _overhead(bodies: Bodies) -> Finding | None:
    sizes = storage.on_disk(bodies.get("storage", storage.NOTHING_MEASURED))
    ours = next((each for title, each in sizes.items() if title.endswith("magic 0")), None)
    if ours is None:
        return None
    others = [f"{title} {significant(each.overhead)}" for title, each in sizes.items() if OWN not in title]
    text = f"{significant(ours.overhead)} with magic 0" + (f"; {', '.join(others)}" if others else "")
    return _judge(text, round(ours.overhead) == storage.PAPER_OVERHEAD["Kafka"])


def _more_space(bodies: Bodies) -> Finding | None:
    more = storage.more_space(bodies.get("storage", storage.NOTHING_MEASURED), "ActiveMQ")
    return None if more is None else _judge(f"{more:.0%} more", more >= _NEARLY * 0.65)


def _no_state(bodies: Bodies) -> Finding | None:
    lines = bodies.get("state", {}).get("lines", ())
    found = {line["title"]: state.written_for_each(line) for line in lines if line["kind"] in {OWN, *_PAPERS_RIVALS}}
    if OWN not in found:
        return None
    text = ", ".join(f"{title} {significant(written)}" for title, written in found.items())
    return _judge(f"bytes for a message: {text}", not found[OWN])


_PAPERS_RIVALS = ("rabbitmq", "activemq")


def _end_to_end(bodies: Bodies) -> Finding | None:
    body = bodies.get("pipeline", {})
    if not body.get("latency"):
        return None
    mean_s = body["latency"]["mean_s"]
    return _judge(f"{significant(mean_s)} s at {body['rate']:,} events a second", mean_s <= 10 / _NEARLY)


def _sendfile(bodies: Bodies) -> Finding | None:
    if "ablation" not in bodies:
        return None
    times = sendfile.times_sendfile(bodies["ablation"]["sendfile"], sendfile.COPY)
    return _judge(f"read and send takes {significant(times)} x the CPU time", times > 1)


def _restart(bodies: Bodies) -> Finding | None:
    if "ablation" not in bodies:
        return None
    share = page_cache.from_disk(bodies["ablation"]["page_cache"], page_cache.RESTARTED)
    return _judge(f"{share:.0%} read from the disk", share < 1 - _NEARLY)


def _accumulated(bodies: Bodies) -> Finding | None:
    ours = [each for each in shares(bodies.get("accumulation", {"lines": []})) if each["title"] == OWN]
    if not ours:
        return None
    last = ours[-1]
    text = (
        f"{significant(last['produce_share'])} and {significant(last['consume_share'])} of the first rates"
        f" at {significant(last['stored_bytes'] / 1e9)} GB"
    )
    return _judge(text, min(last["produce_share"], last["consume_share"]) >= _NEARLY)


_TRACKS = "its broker tracks the delivery of each message"
CLAIMS = (
    Claim(
        "5",
        "A producer publishes 50,000 messages a second at batch 1, 400,000 at batch 50",
        _producer_rates,
        "one core a process of today against one of 2 GHz of 2011; ours is Python around C",
    ),
    Claim(
        "5",
        "That is orders of magnitude more than ActiveMQ",
        partial(_over, other="activemq", title="ActiveMQ", do="produce", least=100),
        "the paper's picture has ActiveMQ at a few thousand; today's is several times as fast",
    ),
    Claim(
        "5",
        "and at least twice RabbitMQ",
        partial(_over, other="rabbitmq", title="RabbitMQ", do="produce", least=2),
        "RabbitMQ takes each message by itself, about as many as in the paper",
    ),
    Claim(
        "5",
        "A batch of 50 gives almost an order of magnitude over a batch of 1",
        _batching,
        "a request is paid for once in a batch, in the client, in the kernel and in the broker",
    ),
    Claim(
        "5",
        "One producer at batch 50 almost saturates a link of 1 Gb/s",
        _link,
        "the paper's 480,000 messages of 209 bytes are 80%; headers of TCP, IP and Ethernet come on top",
    ),
    Claim(
        "5",
        "A consumer reads 22,000 messages a second",
        _consumer_rate,
        "the paper's figure is far below what sendfile and fetches of 200 KB allow: 0.7.2 itself makes over a million a"
        " second on today's machines",
    ),
    Claim(
        "5",
        "That is more than four times ActiveMQ",
        partial(_over, other="activemq", title="ActiveMQ", do="consume", least=4),
        _TRACKS,
    ),
    Claim(
        "5",
        "and more than four times RabbitMQ",
        partial(_over, other="rabbitmq", title="RabbitMQ", do="consume", least=4),
        _TRACKS,
    ),
    Claim(
        "5",
        "The producer is much faster for not waiting for acknowledgements",
        _acknowledgement,
        "against waiting for the proof of each message",
    ),
    Claim(
        "5",
        "A message has an overhead of 9 bytes, against 144 in ActiveMQ",
        _overhead,
        "the format is that of 0.7; magic 1, its later one, has a byte more",
    ),
    Claim(
        "5",
        "ActiveMQ takes 70% more space",
        _more_space,
        "the text's own figures, 344 and 209 bytes, give 65%",
    ),
    Claim(
        "5",
        "The broker writes nothing to disk while it is consumed",
        _no_state,
        "what was consumed is the consumer's to know, and in ZooKeeper",
    ),
    Claim(
        "4",
        "Through the whole pipeline it takes about 10 seconds on average",
        _end_to_end,
        "most of it is the wait for the next load, and the load itself, in Spark",
    ),
    Claim("3.1", "sendfile saves copies and a system call", _sendfile, "copies cost the sender CPU time"),
    Claim(
        "3.1",
        "The cache stays warm when the broker is restarted",
        _restart,
        "the kernel keeps the pages, whoever wrote them",
    ),
    Claim(
        "3.1",
        "Performance is linear in the size of the data, however much has accumulated",
        _accumulated,
        "appending and reading in order do not depend on what else the log has",
    ),
)


def chapter(bodies: Bodies) -> str:
    """Return the table of claims, of those of which something was measured; empty when there is none."""
    rows = [(claim, found) for claim in CLAIMS if (found := claim.find(bodies)) is not None]
    columns = [
        ("the paper", lambda row: row[0].says),
        ("section", lambda row: row[0].section),
        ("here", lambda row: row[1].ours),
        ("", lambda row: row[1].verdict),
        ("why", lambda row: row[0].why),
    ]
    return table(rows, columns) if rows else ""
