"""What gzip and snappy make of events, and what that costs producer, brokers, consumer and mirror."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from kafka2011 import SimpleConsumer
from paper_benchmarks.clients.measure import consume, new_topic
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.accounting import await_end
from paper_benchmarks.measuring.payloads import BATCH
from paper_benchmarks.measuring.worker import run_worker
from paper_benchmarks.pages.pictures import image, plots
from paper_benchmarks.pages.tables import figure, table, text, whole
from paper_benchmarks.systems.kafka2011 import FLUSH_SETTINGS, KIND, own_broker
from paper_benchmarks.systems.system import Flush
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker

CODECS = ("none", "gzip", "snappy")
BATCHES = (BATCH, 200)
WHERE = ("producer", "broker, produce", "consumer", "broker, consume", "mirror", "mirror's target")
_SETTINGS = FLUSH_SETTINGS[Flush.ASYNCHRONOUS]


def measure(bench: Bench) -> dict[str, Any]:
    """Send, read and mirror the same events with every codec, once in each round."""
    messages = bench.sized(toy=2000, small=40_000, paper=400_000)
    with LocalZooKeeper() as zookeeper:
        chroots = [f"{zookeeper.connect_string}/{name}" for name in ("source", "target")]
        with (
            own_broker(bench.data, zk_connect=chroots[0], properties=_SETTINGS) as source,
            own_broker(bench.data, zk_connect=chroots[1], properties=_SETTINGS) as target,
        ):
            lines = [(codec, batch) for batch in BATCHES for codec in CODECS]
            found = bench.in_turn(lines, lambda line: _sample(source, target, *line, messages))
    return {"messages": messages, **summary(found, messages)}


def _sample(source: KafkaBroker, target: KafkaBroker, codec: str, batch: int, messages: int) -> dict[str, Any]:
    topic = new_topic()
    job = {**source.server(), "topic": topic, "codec": codec, "batch": batch, "messages": messages}
    sent = run_worker("paper_benchmarks.workers.event_producer", job, source.cpu_s)
    end_offset = sent.result["sent_bytes"]
    with SimpleConsumer(source.host, source.port) as consumer:
        await_end(consumer, topic, end_offset)
    read = consume(KIND, source, "batches", topic, messages)
    through = {"topic": topic, "end_offset": end_offset, "source": source.zk_connect, "target": target.zk_connect}
    mirror = run_worker("paper_benchmarks.workers.mirror", through, target.cpu_s)
    with SimpleConsumer(target.host, target.port) as consumer:
        await_end(consumer, topic, 2 * end_offset)  # what warms it up is mirrored, too
    took = (sent.result["cpu_s"], sent.server_cpu_s, read.cpu_s, read.server_cpu_s)
    return {
        "event_bytes": sent.facts["event_bytes"],
        "stored_bytes": end_offset,
        "cpu_s": dict(zip(WHERE, (*took, mirror.result["cpu_s"], mirror.server_cpu_s), strict=True)),
    }


def summary(found: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]], messages: int) -> dict[str, Any]:
    """Return ratio and processor time in us an event, medians of all rounds, by codec and size of sets."""
    lines = [
        {
            "codec": codec,
            "batch": batch,
            "ratio": found["none", batch][0]["stored_bytes"] / samples[0]["stored_bytes"],
            "bytes": samples[0]["stored_bytes"] / messages,
            "cpu_us": {
                where: statistics.median(each["cpu_s"][where] / messages * 1e6 for each in samples) for where in WHERE
            },
        }
        for (codec, batch), samples in found.items()
    ]
    return {"event_bytes": next(iter(found.values()))[0]["event_bytes"], "lines": lines}


# The report ----------------------------------------------------------------------------------------------------------

HOW_TO_READ = """\
How to read it: the ratio is that of the bytes in the log without and with the codec, message headers included; it holds
for these made-up page views. Processor time is for each event. The mirror and the broker that is read from pass a
compressed set on as it is; a broker that takes one opens it only to check what is inside."""
COLUMNS = [
    ("codec", text("codec")),
    ("events in a set", text("batch")),
    ("bytes an event", figure("bytes")),
    ("ratio", whole("ratio", digits=2)),
    *((f"{where}, CPU us", figure("cpu_us", where)) for where in WHERE),
]


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw ratio and processor time of every codec, and put all into a table."""
    lines = body["lines"]
    names = [f"{each['codec']}\n{each['batch']}" for each in lines]
    with plots(pictures / "compression.svg", 2, width=10, height=3.6) as [size, cost]:
        size.bar_label(size.bar(names, [each["ratio"] for each in lines], color="#777777"), fmt="%.2f")
        size.set_ylabel("times smaller")
        below = [0.0] * len(lines)
        for where in WHERE:
            heights = [each["cpu_us"][where] for each in lines]
            cost.bar(names, heights, bottom=below, label=where)
            below = [low + height for low, height in zip(below, heights, strict=True)]
        cost.set_ylabel("CPU us an event")
        cost.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
        for axes in (size, cost):
            axes.set_xlabel("codec, events in a set")
            axes.grid(visible=False, axis="x")
    return "\n\n".join(
        [
            HOW_TO_READ,
            image(pictures / "compression.svg", "Compression"),
            table(lines, COLUMNS),
            f"An event has {body['event_bytes']:.0f} bytes on average before it becomes a message.",
        ]
    )


EXPERIMENT = Experiment("compression", "Compression of events", measure, chapter)
