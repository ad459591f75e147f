"""The paper's claims that have a figure in them, and what was measured of each.

A claim reproduces when all rounds say so, and does not when none does; else it is undecided.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.experiments import backlog, reasons
from paper_benchmarks.experiments.catalogue import BURSTS
from paper_benchmarks.measuring.payloads import BATCH, PAYLOAD_BYTES, sent_bytes
from paper_benchmarks.measuring.samples import FEW, LESS, MORE, Spread, ratio
from paper_benchmarks.pages.tables import brackets, significant, table, text
from paper_benchmarks.report.headlines import best, lines_of, rates
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import BYTES_ALONE
from paper_benchmarks.workers.sockets import COPY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Bodies = Mapping[str, Mapping[str, Any]]
    """What experiments measured, by their names."""

REPRODUCES, DOES_NOT, UNDECIDED = "reproduces", "does not", "undecided"
_ORDERS, _TWICE, _ALMOST_ORDER, _FOUR = 100, 2, 8, 4
_LINK_GB_S = 0.8
_IN_LISTS = {"produce": ("sync", BATCH), "consume": ("batches", 1)}
"""Our clients that send and read lists, with their batches."""
_MOST_TIMES = 1.1
"""What counts as no slower: by processor time, which is steadier than the clock."""


class Finding(NamedTuple):
    """What was measured, how often, and how it stands to the paper."""

    here: str
    n: int
    verdict: str


class Claim(NamedTuple):
    """One claim, in our words, by what it is measured, and why it stands as it does; None: nothing was measured."""

    section: str
    says: str
    by: str
    find: Callable[[Bodies], Finding | None]
    why: str


def judge(spread: Spread, least: float, *, below: bool = False) -> str:
    """Say whether all rounds reach a figure (or stay below it), none does, or some do."""
    found = spread.against_figure(least)
    if found == (LESS if below else MORE):
        return REPRODUCES
    if found == FEW:
        return FEW
    return DOES_NOT if found == (MORE if below else LESS) else UNDECIDED


def _found(spread: Spread, least: float, text: str = "{} x", *, below: bool = False) -> Finding:
    return Finding(text.format(brackets(spread)), spread.n, judge(spread, least, below=below))


def _own(bodies: Bodies, do: str, client: str, batch: int = 1, *, name: str = "systems") -> list[float] | None:
    for line in lines_of(bodies.get(name, {})):
        if (line["kind"], line["do"], line["client"], line["batch"]) == (OWN, do, client, batch):
            return rates(line)
    return None


def _producer_rates(bodies: Bodies) -> Finding | None:
    one, fifty = (_own(bodies, "produce", "sync", batch) for batch in (1, BATCH))
    if one is None or fifty is None:
        return None
    both = [(Spread.of(one), 50_000), (Spread.of(fifty), 400_000)]
    verdicts = {judge(spread, least) for spread, least in both}
    here = " and ".join(brackets(spread, whole=True) for spread, _ in both)
    return Finding(here, both[0][0].n, verdicts.pop() if len(verdicts) == 1 else UNDECIDED)


def _over(bodies: Bodies, kind: str, do: str, least: float) -> Finding | None:
    """Compare our batches with the best library of another system: in long runs, or in bursts where those are few."""
    finding = None
    for name in ("systems", BURSTS):
        lines = [line for line in lines_of(bodies.get(name, {})) if line["way"] not in BYTES_ALONE]
        theirs = best([line for line in lines if (line["kind"], line["do"]) == (kind, do)], rates, most=True)
        ours = _own(bodies, do, *_IN_LISTS[do], name=name)
        if ours is not None and theirs is not None:
            finding = _found(ratio(ours, rates(theirs)), least)
            if finding.verdict != FEW:
                break
    return finding


def _batching(bodies: Bodies) -> Finding | None:
    """Compare batches in long runs, and beside them in bursts, which no disk limits."""
    lasting, bursts = (_fifty_to_one(bodies, name) for name in ("systems", BURSTS))
    if lasting is None:
        return None
    found = _found(lasting, _ALMOST_ORDER)
    return found if bursts in {None, lasting} else found._replace(here=f"{found.here}, in bursts {brackets(bursts)} x")


def _fifty_to_one(bodies: Bodies, name: str) -> Spread | None:
    one, fifty = (_own(bodies, "produce", "sync", batch, name=name) for batch in (1, BATCH))
    return None if one is None or fifty is None else ratio(fifty, one)


def _link(bodies: Bodies) -> Finding | None:
    fifty = _own(bodies, "produce", "sync", BATCH)
    if fifty is None:
        return None
    bits = sent_bytes(PAYLOAD_BYTES, BATCH) * 8
    return _found(Spread.of(rate * bits / 1e9 for rate in fifty), _LINK_GB_S, "{} Gb/s of requests, over loopback")


def _consumer_rate(bodies: Bodies) -> Finding | None:
    found = _own(bodies, "consume", "batches")
    if found is None:
        return None
    spread = Spread.of(found)
    return Finding(brackets(spread, whole=True), spread.n, judge(spread, 22_000))


def _acknowledgement(bodies: Bodies) -> Finding | None:
    if "reasons" not in bodies:
        return None
    return _found(reasons.without_proof(bodies["reasons"], "one by one, each waited for"), _TWICE)


def _stored(bodies: Bodies) -> dict[str, Mapping[str, Any]]:
    return {line["title"]: line for line in bodies.get("reasons", {}).get("bytes", ())}


def _overhead(bodies: Bodies) -> Finding | None:
    found = _stored(bodies)
    if reasons.MAGIC_0 not in found:
        return None
    here = "; ".join(f"{title} {significant(reasons.overhead(line))}" for title, line in found.items())
    holds = round(reasons.overhead(found[reasons.MAGIC_0])) == reasons.PAPER_OVERHEAD["Kafka"]
    return Finding(here, 1, REPRODUCES if holds else DOES_NOT)


def _more_space(bodies: Bodies) -> Finding | None:
    found = _stored(bodies)
    if reasons.MAGIC_0 not in found or "ActiveMQ" not in found:
        return None
    more = found["ActiveMQ"]["stored_bytes"] / found[reasons.MAGIC_0]["stored_bytes"] - 1
    return Finding(f"{more:.0%} more", 1, REPRODUCES if more >= 0.65 else DOES_NOT)


def _no_state(bodies: Bodies) -> Finding | None:
    found = _stored(bodies)
    if OWN not in found:
        return None
    written = "; ".join(f"{title} {significant(line['written_bytes'])}" for title, line in found.items())
    return Finding(written, 1, DOES_NOT if found[OWN]["written_bytes"] else REPRODUCES)


def _end_to_end(bodies: Bodies) -> Finding | None:
    body = bodies.get("pipeline", {})
    if not body.get("latency"):
        return None
    mean_s = body["latency"]["mean_s"]
    here = f"{significant(mean_s)} s at {body['rate']:,} events a second, for {body['seconds']:,} s"
    return Finding(here, 1, REPRODUCES if mean_s <= 10 else DOES_NOT)


def _sendfile(bodies: Bodies) -> Finding | None:
    if "reasons" not in bodies:
        return None
    return _found(reasons.times_sendfile(bodies["reasons"], COPY), 1, "read and send takes {} x the CPU time")


def _restart(bodies: Bodies) -> Finding | None:
    if "reasons" not in bodies:
        return None
    shares = Spread.of(bodies["reasons"]["page_cache"][reasons.RESTARTED]["from_disk"])
    return Finding(f"{shares.highest:.0%} read from the disk", shares.n, judge(shares, 0.1, below=True))


def _accumulated(bodies: Bodies) -> Finding | None:
    if "backlog" not in bodies:
        return None
    body = bodies["backlog"]
    both = [backlog.against_small(body, do) for do in ("produce", "consume")]
    verdicts = {judge(spread, _MOST_TIMES, below=True) for spread in both}
    here = f"at {significant(body['large_bytes'] / 1e9)} GB {' and '.join(map(brackets, both))} x the CPU time of 20 MB"
    verdict = REPRODUCES if verdicts == {REPRODUCES} else DOES_NOT if DOES_NOT in verdicts else UNDECIDED
    return Finding(here, both[0].n, verdict)


def _far_behind(bodies: Bodies) -> Finding | None:
    body = bodies.get("backlog")
    if body is None or "missing" in body["behind"]:
        return None
    return _found(backlog.tail(body), _TWICE, "{} x the p99 of a reader at the end", below=True)


_TRACKS = "its broker tracks the delivery of each message"
CLAIMS = (
    Claim(
        "5",
        "A producer publishes 50,000 messages a second at batch 1, 400,000 at batch 50",
        "systems",
        _producer_rates,
        "a core of today against one of 2 GHz of 2011; ours is Python around C",
    ),
    Claim(
        "5",
        "That is orders of magnitude more than ActiveMQ",
        "systems",
        partial(_over, kind="activemq", do="produce", least=_ORDERS),
        "batch 50; held against 100 times",
    ),
    Claim(
        "5",
        "and at least twice RabbitMQ",
        "systems",
        partial(_over, kind="rabbitmq", do="produce", least=_TWICE),
        "its classic queues, as then, which take each message by itself; its streams of today are in the first tables",
    ),
    Claim(
        "5",
        "A batch of 50 gives almost an order of magnitude over a batch of 1",
        "systems",
        _batching,
        "held against 8 times, as in figure 4: a request is paid for once in a batch; in long runs the disk limits 50",
    ),
    Claim(
        "5",
        "One producer at batch 50 almost saturates a link of 1 Gb/s",
        "systems",
        _link,
        "held against the paper's 0.8 Gb/s; nothing here crosses a link",
    ),
    Claim(
        "5",
        "A consumer reads 22,000 messages a second",
        "systems",
        _consumer_rate,
        "far below what sendfile and fetches of 200 KB allow, then too",
    ),
    Claim(
        "5",
        "That is more than four times ActiveMQ",
        "systems",
        partial(_over, kind="activemq", do="consume", least=_FOUR),
        _TRACKS,
    ),
    Claim(
        "5",
        "and more than four times RabbitMQ",
        "systems",
        partial(_over, kind="rabbitmq", do="consume", least=_FOUR),
        _TRACKS,
    ),
    Claim(
        "5",
        "The producer is much faster for not waiting for acknowledgements",
        "reasons",
        _acknowledgement,
        "held against twice; beside waiting for the proof of each message",
    ),
    Claim(
        "5",
        "A message has an overhead of 9 bytes, against 144 in ActiveMQ",
        "reasons",
        _overhead,
        "the format is that of 0.7; magic 1, its later one, has a byte more",
    ),
    Claim(
        "5",
        "ActiveMQ takes 70% more space",
        "reasons",
        _more_space,
        "held against 65%, which is what the text's 344 and 209 bytes give",
    ),
    Claim(
        "5",
        "The broker writes nothing to disk while it is consumed",
        "reasons",
        _no_state,
        "bytes for a message; what was consumed is the consumer's to know, and in ZooKeeper",
    ),
    Claim(
        "4",
        "Through the whole pipeline it takes about 10 seconds on average",
        "pipeline",
        _end_to_end,
        "most of it is the wait for the next load, and the load itself, in Spark",
    ),
    Claim("3.1", "sendfile saves copies and a system call", "reasons", _sendfile, "of the sender alone"),
    Claim(
        "3.1",
        "The cache stays warm when the broker is restarted",
        "reasons",
        _restart,
        "the kernel keeps the pages, whoever wrote them",
    ),
    Claim(
        "3.1",
        "Performance is linear in the size of the data, however much has accumulated",
        "backlog",
        _accumulated,
        f"held against {_MOST_TIMES} times the CPU time",
    ),
    Claim(
        "3.1",
        "The page cache serves a consumer at the end of the log, whatever others read",
        "backlog",
        _far_behind,
        "held against twice; the paper argues so, and measures nothing",
    ),
)


def chapter(bodies: Bodies) -> str:
    """Return the table of claims, of those of which something was measured; empty when there is none."""
    rows = [(claim, found) for claim in CLAIMS if (found := claim.find(bodies)) is not None]
    columns = [
        ("the paper", lambda row: row[0].says),
        ("section", text(0, 0)),
        ("here: median (lowest to highest)", lambda row: row[1].here),
        ("n", lambda row: row[1].n),
        ("", lambda row: row[1].verdict),
        ("why", lambda row: row[0].why),
    ]
    return table(rows, columns) if rows else ""
