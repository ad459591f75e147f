"""The paper's claims that have a figure in them, and what was measured of each: reproduces, does not, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.experiments import accumulation, link, state, storage
from paper_benchmarks.experiments.targets import ratios
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.reasons import acknowledgement, page_cache, transfer
from paper_benchmarks.systems.kafka import OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Bodies = Mapping[str, Mapping[str, Any]]
    """What experiments measured, by their names."""

REPRODUCES, PARTLY, DOES_NOT = "reproduces", "in part", "does not"
_NEARLY = 0.9
"""Of a figure of the paper; below that it is not reached."""


class Finding(NamedTuple):
    """What was measured, how it stands to the paper, and why."""

    ours: str
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim, in our words. `find` gives None where nothing was measured of it."""

    section: str
    says: str
    find: Callable[[Bodies], Finding | None]


def _run(bodies: Bodies, kind: str, do: str, line: str = "") -> Mapping[str, Any] | None:
    """Return a kind's run of figures 4 and 5, flushed asynchronously: its first one of that name."""
    for found in bodies.get("figures", {}).get("lines", ()):
        if (found["kind"], found["flush"], found["run"]["do"]) == (kind, Flush.ASYNCHRONOUS, do) and line in found[
            "line"
        ]:
            run: Mapping[str, Any] = found["run"]
            return run
    return None


def _rate(bodies: Bodies, kind: str, do: str, line: str = "") -> float | None:
    run = _run(bodies, kind, do, line)
    return None if run is None else run["steady_rate"]


def _at_least(measured: float, wanted: float) -> str:
    return REPRODUCES if measured >= _NEARLY * wanted else DOES_NOT


def _producer_rates(bodies: Bodies) -> Finding | None:
    one, fifty = (_rate(bodies, OWN, "produce", f"SyncProducer, batch {batch}") for batch in (1, 50))
    if one is None or fifty is None:
        return None
    verdict = REPRODUCES if one >= _NEARLY * 50_000 and fifty >= _NEARLY * 400_000 else PARTLY
    return Finding(
        f"{significant(one)} and {significant(fifty)}",
        verdict,
        "one core a process of today against one of 2 GHz of 2011; ours is Python around C",
    )


def _batching(bodies: Bodies) -> Finding | None:
    found = next((each for each in _ratios(bodies) if each[0] == "produce, batch 50 over batch 1"), None)
    return None if found is None else Finding(f"{significant(found[1])} x", _at_least(found[1], 8), _BATCHING)


_BATCHING = "a request is paid for once in a batch, in the client, in the kernel and in the broker"


def _ratios(bodies: Bodies) -> list[tuple[str, float]]:
    body = bodies.get("table")
    return [] if body is None else [(ratio.target.title, ratio.spread.median) for ratio in ratios(body)]


def _over(other: str, title: str, do: str, least: float, why: str) -> Callable[[Bodies], Finding | None]:
    """Compare our usual line with another system's, in the run of figures 4 and 5."""

    def find(bodies: Bodies) -> Finding | None:
        ours = _rate(bodies, OWN, do, "batch 50" if do == "produce" else "batches()")
        one = _rate(bodies, OWN, do, "batch 1") if do == "produce" else None
        theirs = _rate(bodies, other, do)
        if ours is None or theirs is None:
            return None
        text = f"{significant(ours / theirs)} x"
        if one is not None:
            text += f" at batch 50, {significant(one / theirs)} x at batch 1"
        return Finding(f"{text} ({title} {significant(theirs)})", _at_least(ours / theirs, least), why)

    return find


def _consumer_rate(bodies: Bodies) -> Finding | None:
    rate = _rate(bodies, OWN, "consume", "batches()")
    if rate is None:
        return None
    return Finding(
        significant(rate) or "",
        _at_least(rate, 22_000),
        "the paper's figure is far below what sendfile and fetches of 200 KB allow: 0.7.2 itself makes over a million a"
        " second on today's machines",
    )


def _overhead(bodies: Bodies) -> Finding | None:
    sizes = storage.on_disk(bodies.get("storage", storage.NOTHING_MEASURED))
    ours = next((each for title, each in sizes.items() if title.endswith("magic 0")), None)
    if ours is None:
        return None
    others = [f"{title} {significant(each.overhead)}" for title, each in sizes.items() if OWN not in title]
    verdict = REPRODUCES if round(ours.overhead) == storage.PAPER_OVERHEAD["Kafka"] else DOES_NOT
    text = f"{significant(ours.overhead)} with magic 0" + (f"; {', '.join(others)}" if others else "")
    return Finding(text, verdict, "the format is that of 0.7; magic 1, its later one, has a byte more")


def _more_space(bodies: Bodies) -> Finding | None:
    more = storage.more_space(bodies.get("storage", storage.NOTHING_MEASURED), "ActiveMQ")
    if more is None:
        return None
    return Finding(f"{more:.0%} more", _at_least(more, 0.65), "the text's own figures, 344 and 209 bytes, give 65%")


def _no_state(bodies: Bodies) -> Finding | None:
    if "state" not in bodies:
        return None
    found = {
        line["title"]: state.footprints(bodies["state"])[line["title"]]
        for line in bodies["state"]["lines"]
        if line["kind"] in {OWN, "rabbitmq", "activemq"}
    }
    text = ", ".join(f"{title} {significant(each.written_for_each)}" for title, each in found.items())
    ours = found.get(OWN)
    if ours is None:
        return None
    why = "what was consumed is the consumer's to know, and in ZooKeeper"
    return Finding(f"bytes for a message: {text}", DOES_NOT if ours.written_bytes else REPRODUCES, why)


def _acknowledgement(bodies: Bodies) -> Finding | None:
    if "ablation" not in bodies:
        return None
    times = acknowledgement.slower(bodies["ablation"]["acknowledgement"])["batch 1, waited for one by one"]
    return Finding(f"{significant(times)} x", _at_least(times, 2), "against waiting for the proof of each message")


def _sendfile(bodies: Bodies) -> Finding | None:
    if "ablation" not in bodies:
        return None
    costs = transfer.costs(bodies["ablation"]["transfer"])
    times = costs[transfer.COPY].cpu_us.median / costs[transfer.SENDFILE].cpu_us.median
    verdict = REPRODUCES if times > 1 else DOES_NOT
    return Finding(
        f"read and send takes {significant(times)} x the CPU time", verdict, "copies cost the sender CPU time"
    )


def _restart(bodies: Bodies) -> Finding | None:
    if "ablation" not in bodies:
        return None
    found = page_cache.readings(bodies["ablation"]["page_cache"])[page_cache.RESTARTED]
    verdict = REPRODUCES if found.from_disk < 1 - _NEARLY else DOES_NOT
    return Finding(
        f"{found.from_disk:.0%} read from the disk", verdict, "the kernel keeps the pages, whoever wrote them"
    )


def _accumulated(bodies: Bodies) -> Finding | None:
    points = accumulation.points(bodies.get("accumulation", {"lines": []})).get(OWN)
    if not points:
        return None
    last = points[-1]
    return Finding(
        f"{significant(last.produce_share)} and {significant(last.consume_share)} of the first rates"
        f" at {significant(last.stored_bytes / 1e9)} GB",
        _at_least(min(last.produce_share, last.consume_share), 1),
        "appending and reading in order do not depend on what else the log has",
    )


def _link(bodies: Bodies) -> Finding | None:
    share = link.share(bodies["link"]) if "link" in bodies else None
    if share is None:
        return None
    return Finding(
        f"{share:.0%} of it, in requests",
        _at_least(share, 0.8),
        "the paper's 480,000 messages of 209 bytes are 80%; headers of TCP, IP and Ethernet come on top",
    )


def _end_to_end(bodies: Bodies) -> Finding | None:
    body = bodies.get("pipeline", {})
    if not body.get("latency"):
        return None
    mean_s = body["latency"]["mean_s"]
    return Finding(
        f"{significant(mean_s)} s at {body['rate']:,} events a second",
        REPRODUCES if mean_s <= 10 / _NEARLY else DOES_NOT,
        "most of it is the wait for the next load, and the load itself, in Spark",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim("5", "A producer publishes 50,000 messages a second at batch 1, 400,000 at batch 50", _producer_rates),
    Claim(
        "5",
        "That is orders of magnitude more than ActiveMQ",
        _over(
            "activemq",
            "ActiveMQ",
            "produce",
            100,
            "the paper's picture has ActiveMQ at a few thousand; today's is several times as fast",
        ),
    ),
    Claim(
        "5",
        "and at least twice RabbitMQ",
        _over(
            "rabbitmq", "RabbitMQ", "produce", 2, "RabbitMQ takes each message by itself, about as many as in the paper"
        ),
    ),
    Claim("5", "A batch of 50 gives almost an order of magnitude over a batch of 1", _batching),
    Claim("5", "One producer at batch 50 almost saturates a link of 1 Gb/s", _link),
    Claim("5", "A consumer reads 22,000 messages a second", _consumer_rate),
    Claim(
        "5",
        "That is more than four times ActiveMQ",
        _over("activemq", "ActiveMQ", "consume", 4, "its broker tracks the delivery of each message"),
    ),
    Claim(
        "5",
        "and more than four times RabbitMQ",
        _over("rabbitmq", "RabbitMQ", "consume", 4, "its broker tracks the delivery of each message"),
    ),
    Claim("5", "The producer is much faster for not waiting for acknowledgements", _acknowledgement),
    Claim("5", "A message has an overhead of 9 bytes, against 144 in ActiveMQ", _overhead),
    Claim("5", "ActiveMQ takes 70% more space", _more_space),
    Claim("5", "The broker writes nothing to disk while it is consumed", _no_state),
    Claim("4", "Through the whole pipeline it takes about 10 seconds on average", _end_to_end),
    Claim("3.1", "sendfile saves copies and a system call", _sendfile),
    Claim("3.1", "The cache stays warm when the broker is restarted", _restart),
    Claim("3.1", "Performance is linear in the size of the data, however much has accumulated", _accumulated),
)


def chapter(bodies: Bodies) -> str:
    """Return the table of claims, of those of which something was measured; empty when there is none."""
    rows = [
        (claim.says, claim.section, found.ours, found.verdict, found.why)
        for claim in CLAIMS
        if (found := claim.find(bodies)) is not None
    ]
    return table(("the paper", "section", "here", "", "why"), rows) if rows else ""
