"""What gzip and snappy make of events, and what that costs producer, brokers, consumer and mirror."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from kafka2011 import SimpleConsumer
from paper_benchmarks.accounting import await_end
from paper_benchmarks.experiment import Experiment
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import consume, new_topic
from paper_benchmarks.payloads import BATCH
from paper_benchmarks.pictures import image, plots
from paper_benchmarks.systems.kafka import FLUSH_SETTINGS, KIND, own_broker
from paper_benchmarks.systems.system import Flush
from paper_benchmarks.worker import Worker
from zk.local import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.systems.kafka import KafkaBroker

CODECS = ("none", "gzip", "snappy")
BATCHES = (BATCH, 200)
_SETTINGS = FLUSH_SETTINGS[Flush.ASYNCHRONOUS]


def measure(bench: Bench) -> dict[str, Any]:
    """Send, read and mirror the same events with every codec, once in each round."""
    messages = bench.messages(toy=2000, small=40_000, paper=400_000)
    rounds = bench.messages(toy=1, small=3, paper=5)
    found = []
    with LocalZooKeeper() as zookeeper:
        chroots = [f"{zookeeper.connect_string}/{name}" for name in ("source", "target")]
        with (
            own_broker(bench.data, zk_connect=chroots[0], properties=_SETTINGS) as source,
            own_broker(bench.data, zk_connect=chroots[1], properties=_SETTINGS) as target,
        ):
            for number in range(1, rounds + 1):
                for batch in BATCHES:
                    for codec in CODECS:
                        bench.say(f"round {number} of {rounds}: {codec}, sets of {batch}")
                        found.append(_sample(source, target, codec, batch, messages))
    return {"messages": messages, "samples": found}


def _sample(source: KafkaBroker, target: KafkaBroker, codec: str, batch: int, messages: int) -> dict[str, Any]:
    topic = new_topic()
    job = {"host": source.host, "port": source.port, "topic": topic, "codec": codec, "batch": batch}
    sent, stored_cpu_s, facts = _work("paper_benchmarks.drivers.event_producer", {**job, "messages": messages}, source)
    end_offset = sent["sent_bytes"]
    with SimpleConsumer(source.host, source.port) as consumer:
        await_end(consumer, topic, end_offset)
    read = consume(KIND, source, "batches", topic, messages)
    assert read.server is not None
    through = {
        "line": "mirror",
        "topic": topic,
        "end_offset": end_offset,
        "source": source.zk_connect,
        "target": target.zk_connect,
    }
    mirrored, target_cpu_s, _ = _work("paper_benchmarks.mirror.work", through, target)
    with SimpleConsumer(target.host, target.port) as consumer:
        await_end(consumer, topic, 2 * end_offset)  # what warms it up is mirrored, too
    return {
        "codec": codec,
        "batch": batch,
        "event_bytes": facts["event_bytes"],
        "stored_bytes": end_offset,
        "cpu_s": {
            "producer": sent["cpu_s"],
            "broker, produce": stored_cpu_s,
            "consumer": read.cpu_s,
            "broker, consume": read.server.cpu_s,
            "mirror": mirrored["cpu_s"],
            "mirror's target": target_cpu_s,
        },
    }


def _work(module: str, job: Mapping[str, Any], system: KafkaBroker) -> tuple[dict[str, Any], float, dict[str, Any]]:
    """Return what a worker measured, the processor time that a broker used meanwhile, and what it told before."""
    with Worker(module, job) as worker:
        before_s = system.cpu_s()
        worker.go()
        result = worker.result()
        after_s = system.cpu_s()
    assert before_s is not None
    assert after_s is not None
    return result, after_s - before_s, worker.facts


# The report ----------------------------------------------------------------------------------------------------------

HOW_TO_READ = """\
How to read it: the ratio is that of the bytes in the log without and with the codec, message headers included; it holds
for these made-up page views. Processor time is for each event. The mirror and the broker that is read from pass a
compressed set on as it is; a broker that takes one opens it only to check what is inside."""
WHERE = ("producer", "broker, produce", "consumer", "broker, consume", "mirror", "mirror's target")


def figures(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return ratio and processor time in us an event, medians of all rounds, by codec and size of sets."""
    keys = [(codec, batch) for batch in BATCHES for codec in CODECS]
    found = []
    for codec, batch in keys:
        samples = [each for each in body["samples"] if (each["codec"], each["batch"]) == (codec, batch)]
        plain = next(each for each in body["samples"] if (each["codec"], each["batch"]) == ("none", batch))
        found.append(
            {
                "codec": codec,
                "batch": batch,
                "ratio": plain["stored_bytes"] / samples[0]["stored_bytes"],
                "bytes": samples[0]["stored_bytes"] / body["messages"],
                "cpu_us": {
                    where: statistics.median(each["cpu_s"][where] / body["messages"] * 1e6 for each in samples)
                    for where in WHERE
                },
            }
        )
    return found


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw ratio and processor time of every codec, and put all into a table."""
    found = figures(body)
    names = [f"{each['codec']}\n{each['batch']}" for each in found]
    with plots(pictures / "compression.svg", 2, width=10, height=3.6) as [size, cost]:
        size.bar_label(size.bar(names, [each["ratio"] for each in found], color="#777777"), fmt="%.2f")
        size.set_ylabel("times smaller")
        below = [0.0] * len(found)
        for where in WHERE:
            heights = [each["cpu_us"][where] for each in found]
            cost.bar(names, heights, bottom=below, label=where)
            below = [low + height for low, height in zip(below, heights, strict=True)]
        cost.set_ylabel("CPU us an event")
        cost.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
        for axes in (size, cost):
            axes.set_xlabel("codec, events in a set")
            axes.grid(visible=False, axis="x")
    rows = [
        (
            each["codec"],
            each["batch"],
            significant(each["bytes"]),
            f"{each['ratio']:.2f}",
            *(significant(each["cpu_us"][where]) for where in WHERE),
        )
        for each in found
    ]
    columns = ("codec", "events in a set", "bytes an event", "ratio", *(f"{where}, CPU us" for where in WHERE))
    event_bytes = body["samples"][0]["event_bytes"]
    return "\n\n".join(
        [
            HOW_TO_READ,
            image(pictures / "compression.svg", "Compression"),
            table(columns, rows),
            f"An event has {event_bytes:.0f} bytes on average before it becomes a message.",
        ]
    )


COMPRESSION = Experiment("compression", "Compression of events", measure, chapter)
