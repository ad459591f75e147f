"""What a message costs each of our clients, and the broker under them: with messages handled in C, and in Python."""

from __future__ import annotations

import importlib.util
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.clients.measure import consume, produce
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.experiments.limits import sink
from paper_benchmarks.measuring.payloads import BATCH
from paper_benchmarks.measuring.spread import figures, ratio
from paper_benchmarks.pages.tables import figure, spread_columns, table, text, whole
from paper_benchmarks.systems.kafka2011 import KIND, OWN, own_broker
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.clients.measure import Run
    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.measuring.spread import Sample
    from paper_benchmarks.systems.kafka2011 import KafkaBroker

COMPILED, PURE = "C", "Python"
"""The two that work on messages; see `kafka2011.message.runs`."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that a client does with `messages` messages, and CPU time at most, of client and broker, by code."""

    title: str
    client: str
    batch: int
    messages: int
    reads: bool = False
    needs_group: bool = False
    target_us: tuple[float, float] | None = None
    broker_target_us: tuple[float, float] | None = None


LINES = {
    "async": Line("Producer, async, a message a send", "async", 1, 200_000, target_us=(2.0, 3.0)),
    "async-confirmed": Line("the same, confirmed", "async-confirmed", 1, 200_000, target_us=(2.5, 3.75)),
    "async-lists": Line("Producer, async, lists of 50", "async", BATCH, 500_000),
    "sync-1": Line("SyncProducer, batch 1", "sync", 1, 100_000, False, False, (4.5, 5.0), (1.5, 2.0)),
    "sync-50": Line("SyncProducer, batch 50", "sync", BATCH, 500_000, False, False, (0.25, 0.42), (0.45, 0.7)),
    "simple": Line("SimpleConsumer, fetches of 200 KB", "simple", 1, 500_000, True, False, (0.5, 0.55)),
    "stream": Line("a stream, message by message", "stream", 1, 500_000, True, True, (0.65, 0.9)),
    "batches": Line("a stream, batches()", "batches", 1, 500_000, True, True, (0.4, 0.7)),
}
YARDSTICKS = {
    "sendall-1": Line("sendall of one message, encoded before", "raw", 1, 200_000),
    "sendall-50": Line("sendall of 50 messages, encoded before", "raw", BATCH, 2_000_000),
}


class Key(NamedTuple):
    """What is measured: a line against a system, by one of the codes; of yardsticks there is one."""

    system: str
    code: str
    line: str

    def __str__(self) -> str:
        return ", ".join(self)


def measure(bench: Bench) -> dict[str, Any]:
    """Measure the yardsticks, and every line with either code against our broker and others, once in each round."""
    both = [COMPILED, PURE] if importlib.util.find_spec("kafka2011.message._runs") else [PURE]
    codes = bench.sized(toy=[PURE], small=both, paper=both)
    scale = bench.sized(toy=0.001, small=1.0, paper=5.0)
    with LocalZooKeeper() as zookeeper, ExitStack() as stack:
        systems: dict[tuple[str, str], KafkaBroker] = {}
        for code in codes:
            chroot = f"{zookeeper.connect_string}/{code}"
            own = stack.enter_context(own_broker(bench.data, zk_connect=chroot, pure=code == PURE))
            systems |= {(OWN, code): own} | {(each.name, code): each for each in bench.others}
        filled = {key: _fill(system, _scaled(LINES["batches"], scale)) for key, system in systems.items()}

        def once(key: Key) -> Sample:
            line = (YARDSTICKS | LINES)[key.line]
            messages, pure = _scaled(line, scale), key.code == PURE
            if key.line in YARDSTICKS:
                return sink(messages, line.batch)
            system = systems[key.system, key.code]
            if line.reads:
                run = filled[key.system, key.code]
                return consume(KIND, system, line.client, run.topic, run.landed, pure=pure)
            return produce(KIND, system, line.client, messages, batch=line.batch, pure=pure)

        keys = [Key("sink", "-", name) for name in YARDSTICKS]
        keys += [
            Key(*key, name)
            for key, system in systems.items()
            for name, line in LINES.items()
            if system.zk_connect is not None or not line.needs_group
        ]
        found = bench.in_turn(keys, once, bench.sized(toy=1, small=5, paper=7))
    return {"lines": lines(found)}


def _scaled(line: Line, scale: float) -> int:
    """Return the messages of a line, more or fewer, in whole batches."""
    return max(round(line.messages * scale / BATCH), 1) * BATCH


def _fill(system: KafkaBroker, messages: int) -> Run:
    return produce(KIND, system, "sync", messages, batch=BATCH)


def lines(found: Mapping[Key, Sequence[Sample]]) -> list[dict[str, Any]]:
    """Return the figures of each line, and its rate as a multiple of each yardstick's in the same rounds."""
    units = {key.line: samples for key, samples in found.items() if key.line in YARDSTICKS}
    return [
        {
            **key._asdict(),
            **figures(samples),
            "times": {name: ratio(samples, unit) for name, unit in units.items()},
        }
        for key, samples in found.items()
    ]


# The report ----------------------------------------------------------------------------------------------------------

TEXT = """\
Messages of 200 bytes, one topic, one partition, one broker; docs/benchmarks.md explains the lines. *target* is held
against the lowest CPU time, which depends least on what else runs; `x target` above 1 misses it. A rate is also a
multiple of the yardsticks' in the same rounds, which send what was encoded before to a process that only receives."""


def rows(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each line, and one for the broker's CPU time where that has a target."""
    made = []
    for each in found:
        line = (YARDSTICKS | LINES)[each["line"]]
        where = f"{each['system']}, messages in {each['code']}, " if each["line"] in LINES else ""
        made.append(_row(where + line.title, each["client_cpu_us"], line.target_us, each))
        if line.broker_target_us and each["server_cpu_us"]:
            broker = {**each, "rate": None, "times": None}
            title = f"{where}broker, batch {line.batch}"
            made.append(_row(title, each["server_cpu_us"], line.broker_target_us, broker))
    return made


def _row(
    title: str, cpu_us: Sequence[float], targets: tuple[float, float] | None, line: Mapping[str, Any]
) -> dict[str, Any]:
    target_us = targets and targets[line["code"] == PURE]
    of_target = target_us and cpu_us[0] / target_us
    return {**line, "title": title, "cpu_us": cpu_us, "target_us": target_us, "of_target": of_target}


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put CPU time, targets, rates and multiples into a table."""
    columns = [
        ("line", text("title")),
        *spread_columns("CPU us", "cpu_us"),
        ("target", whole("target_us", digits=2)),
        ("x target", whole("of_target", digits=2)),
        *spread_columns("messages/s", "rate"),
        *((f"x {name}", figure("times", name, 1)) for name in YARDSTICKS),
    ]
    return "\n\n".join([TEXT, table(rows(body["lines"]), columns)])


EXPERIMENT = Experiment("clients", "What a message costs each client", measure, chapter)
