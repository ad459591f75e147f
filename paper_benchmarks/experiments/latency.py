"""From when a message is due to when a stream of another process hands it out: by rate, and by when brokers flush."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011 import SyncProducer
from paper_benchmarks.clients.measure import new_topic
from paper_benchmarks.experiments.experiment import Experiment, Size
from paper_benchmarks.measuring.worker import Worker
from paper_benchmarks.pages.pictures import image, plots
from paper_benchmarks.pages.tables import figure, significant, spread_of, table, text, whole
from paper_benchmarks.systems import gateway, kafka
from paper_benchmarks.systems.kafka2011 import OWN, own_broker
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.pages.tables import Column
    from paper_benchmarks.systems.system import System

_DRIVER = "paper_benchmarks.workers.latency"
_DEADLINE_S = 120.0  # beyond the time that sending should take
_NEVER_BY_COUNT = 2**31 - 1


class Beside(NamedTuple):
    """A line that stands beside Kafka 4: which client of which system, with which settings of both."""

    title: str
    kind: str
    client: str
    settings: Mapping[str, object] = {}
    server: Mapping[str, object] = {}


BESIDE = (
    Beside("kafka2011, Producer, as shipped", OWN, "producer"),
    Beside("kafka2011, Producer, flushed each time", OWN, "producer", server={"log.flush.interval": 1}),
    Beside("kafka2011 by its gateway, confluent-kafka (linger.ms=0)", gateway.KIND.name, "kafka", {"linger.ms": 0}),
    Beside("Kafka 4, as shipped (linger.ms=5)", kafka.KIND.name, "kafka"),
    Beside("Kafka 4, tuned (linger.ms=0)", kafka.KIND.name, "kafka", {"linger.ms": 0}),
)
BESIDE_RATES = (1000, 10_000, 100_000)


@dataclass(frozen=True, slots=True)
class Setting:
    """When a broker flushes, and how often a reader that found nothing asks again."""

    title: str
    properties: Mapping[str, object]
    backoff_ms: int


def _by_time(interval_ms: int) -> dict[str, object]:
    return {
        "log.flush.interval": _NEVER_BY_COUNT,
        "log.default.flush.scheduler.interval.ms": interval_ms,
        "log.default.flush.interval.ms": interval_ms,
    }


SETTINGS = (
    Setting("every message", {"log.flush.interval": 1}, 10),
    Setting("every 10 ms", _by_time(10), 10),
    Setting("every 100 ms", _by_time(100), 10),
    Setting("as shipped: 500 messages or 3 s", {}, 1000),
)
RATES = (1, 100, 1000, 10_000)
"""Messages a second."""


def deliver(
    system: System,
    rate: int,
    seconds: float,
    backoff_ms: int,
    begin: Callable[[], object] | None = None,
    *,
    client: str = "sync",
    settings: Mapping[str, object] | None = None,
    warm_s: float = 0.0,
) -> dict[str, Any]:
    """Send at a rate for so many seconds to a new topic, and return how long it took to deliver each message.

    `begin` is called when all is ready, just before. `client` is `sync` (SyncProducer), `producer` or `kafka`, which
    sends with `settings`. A `backoff_ms` of 0 leaves a consumer of ours as it ships. What is sent in the first `warm_s`
    does not count.
    """
    topic, messages = new_topic(), max(int(rate * seconds), 10)
    if client == "kafka":
        kafka.make_topic(system, topic, 1)
    else:
        with SyncProducer(system.host, system.port) as producer:
            producer.send(topic, bytes(8), 0)  # what a reader waits for before it is ready
    job = {
        "topic": topic,
        "rate": rate,
        "messages": messages,
        "warm_messages": int(rate * warm_s),
        "backoff_ms": backoff_ms,
        "client": client,
        "settings": dict(settings or {}),
        "server": system.server(),
    }
    deadline_s = messages / rate + warm_s + _DEADLINE_S
    with ExitStack() as stack:
        # A topic of Kafka is empty: its reader is ready once the sender is.
        first, second = ("send", "deliver") if client == "kafka" else ("deliver", "send")
        workers = {
            do: stack.enter_context(Worker(_DRIVER, {**job, "do": do}, deadline_s=deadline_s)) for do in (first, second)
        }
        if begin is not None:
            begin()
        before_s = system.cpu_s()
        workers["deliver"].go()
        workers["send"].go()
        sent, read = workers["send"].result(), workers["deliver"].result()
        after_s = system.cpu_s()
    assert before_s is not None
    assert after_s is not None
    return {
        "rate": rate,
        "messages": messages,
        "elapsed_s": read["wall_s"],
        "latencies_ms": read["latencies_ms"],
        "late_ms": sent["late_ms"],
        "broker_cores": (after_s - before_s) / read["wall_s"],
        "client_cores": (sent["cpu_s"] + read["cpu_s"]) / read["wall_s"],
    }


def _beside(bench: Bench) -> dict[str, Any]:
    """Measure ours and Kafka 4 in turn, as shipped and tuned, in servers that run together."""
    kinds = gateway.beside(bench.kinds)
    lines = [line for line in BESIDE if line.kind in kinds]
    if bench.size is Size.TOY:
        lines = list({line.kind: line for line in lines}.values())
    seconds = bench.sized(toy=0.2, small=4, paper=bench.seconds)
    rates = RATES[2:3] if bench.size is Size.TOY else BESIDE_RATES
    with ExitStack() as stack:
        servers: dict[tuple[object, ...], System] = {}

        def once(name: str) -> dict[str, float]:
            line, rate = planned[name]
            key = line.kind, str(line.server)
            if key not in servers:
                servers[key] = stack.enter_context(bench.start(kinds[line.kind], line.server))
            done = deliver(
                servers[key], rate, seconds, 0, client=line.client, settings=line.settings, warm_s=seconds / 5
            )
            return {
                "p50_ms": percentile_ms(done, 0.5),
                "p99_ms": percentile_ms(done, 0.99),
                "late_ms": done["late_ms"],
                "server_cores": done["broker_cores"],
                "client_cores": done["client_cores"],
            }

        planned = {f"{line.title}, {rate:,} messages/s": (line, rate) for rate in rates for line in lines}
        found = bench.in_turn(planned, once, bench.sized(toy=1, small=3, paper=5), "beside")
    return {
        "lines": [
            {"line": line.title, "rate": rate, **{key: [each[key] for each in several] for key in several[0]}}
            for (line, rate), several in zip(planned.values(), found.values(), strict=True)
        ]
    }


def measure(bench: Bench) -> dict[str, Any]:
    """Measure each rate with each setting."""
    seconds = bench.sized(toy=1, small=6, paper=20) * (0.2 if bench.size is Size.TOY else 1)
    found, beside = [], _beside(bench)
    with LocalZooKeeper() as zookeeper:
        for number, setting in enumerate(SETTINGS):
            chroot = f"{zookeeper.connect_string}/{number}"
            with own_broker(bench.data, zk_connect=chroot, properties=setting.properties) as system:
                for rate in RATES[1:2] if bench.size is Size.TOY else RATES:
                    bench.say(f"flush {setting.title}: {rate:,} messages/s")
                    measured = deliver(system, rate, seconds, setting.backoff_ms)
                    found.append({"flush": setting.title, "backoff_ms": setting.backoff_ms, **measured})
    return {"seconds": seconds, "lines": found, "beside": beside}


# The report ----------------------------------------------------------------------------------------------------------

HOW_TO_READ = """\
How to read it: the time from when a message was due until a stream in another process handed it out. A message cannot
be read before its log is flushed, which is a wait, not work; a reader that finds nothing is answered as soon as there
is something, and a log that one waits for is flushed at once if it was not flushed within the last millisecond. A
sender that was late at the end could not keep the rate: then the figures show a queue that grows."""


def percentile_ms(line: Mapping[str, Any], share: float) -> float:
    """Return the latency within which this share of the messages was delivered."""
    return float(dict(map(tuple, line["latencies_ms"]))[share])


def percentiles(*titles: str) -> list[Column]:
    """Return columns for half of the messages, 99% and 99.9% of them."""
    return [
        (title, lambda line, share=share: significant(percentile_ms(line, share)))  # type: ignore[misc]
        for title, share in zip(titles, (0.5, 0.99, 0.999), strict=True)
    ]


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw how the latencies are spread, a plot for each rate, and put percentiles into a table."""
    _draw(body, pictures / "latency.svg")
    columns = [
        ("flush", text("flush")),
        ("messages/s", whole("rate")),
        ("backoff, ms", text("backoff_ms")),
        *percentiles("p50, ms", "p99, ms", "p999, ms"),
        ("highest, ms", lambda line: significant(percentile_ms(line, 1.0))),
        ("sender late, ms", figure("late_ms")),
        ("broker, cores", whole("broker_cores", digits=2)),
        ("clients, cores", whole("client_cores", digits=2)),
    ]
    picture = image(pictures / "latency.svg", "Latency by rate")
    return "\n\n".join([HOW_TO_READ, picture, table(body["lines"], columns), *beside_kafka(body)])


def beside_kafka(body: Mapping[str, Any]) -> list[str]:
    """Return the table beside Kafka 4, with its title; nothing where it was not measured."""
    if not body.get("beside", {}).get("lines"):
        return []
    columns = [
        ("line", text("line")),
        ("messages/s", whole("rate")),
        ("p50, ms", spread_of("p50_ms")),
        ("p99, ms", spread_of("p99_ms")),
        ("sender late, ms", spread_of("late_ms")),
        ("server, cores", spread_of("server_cores")),
        ("clients, cores", spread_of("client_cores")),
    ]
    return ["### Delivery", BESIDE_TEXT, table(body["beside"]["lines"], columns)]


BESIDE_TEXT = """\
The same for the producers and consumers that most programs use, one broker each. As shipped, ours makes a message
readable once it is flushed, and flushes at once for a reader that waits; Kafka 4 flushes nothing."""


def _draw(body: Mapping[str, Any], path: Path) -> None:
    rates = sorted({line["rate"] for line in body["lines"]})
    with plots(path, len(rates), width=3.4 * len(rates), height=3.8) as several:
        for axes, rate in zip(several, rates, strict=True):
            for line in body["lines"]:
                if line["rate"] == rate:
                    shares, latencies_ms = zip(*line["latencies_ms"], strict=True)
                    axes.plot(latencies_ms, [100 * share for share in shares], label=line["flush"], linewidth=1.3)
            axes.set_xscale("log")
            axes.set_xlabel("ms, at most")
            axes.set_title(f"{rate:,} messages/s")
        several[0].set_ylabel("% of the messages")
        several[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1), title="flush")


EXPERIMENT = Experiment(
    "latency",
    "From send to delivery",
    "whoever needs messages soon: what the flush interval costs, and what it gives",
    measure,
    chapter,
)
