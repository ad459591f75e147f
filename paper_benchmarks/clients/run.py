"""Rounds: in each, every line once against every system, so that what the machine does meanwhile meets all alike."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka2011 import SimpleConsumer, SyncProducer
from paper_benchmarks.accounting import check_landed
from paper_benchmarks.clients.lines import COMPILED, PURE, Line
from paper_benchmarks.drivers.job import Job
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.measure import new_topic
from paper_benchmarks.payloads import batches
from paper_benchmarks.samples import Sample
from paper_benchmarks.systems.kafka import KafkaBroker, own_broker
from paper_benchmarks.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.clients.lines import Yardstick

YARDSTICK_SYSTEM = "sink"
_DRIVER = "paper_benchmarks.drivers.kafka"
_SINK = "paper_benchmarks.sink"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured."""

    rounds: int
    codes: Sequence[str]
    lines: Sequence[Line]
    yardsticks: Sequence[Yardstick]
    others: Sequence[KafkaBroker]
    own: bool
    log_base: Path


def rounds(plan: Plan, zk_connect: str | None, on_step: Callable[[str], object]) -> Iterator[Sample]:
    """Run all rounds, and give each sample as it comes; `on_step` is told what comes next."""
    for number in range(1, plan.rounds + 1):
        on_step(f"round {number} of {plan.rounds}: yardsticks")
        for yardstick in plan.yardsticks:
            yield measure_yardstick(number, yardstick)
        for code in plan.codes:
            with ExitStack() as stack:
                systems = list(plan.others)
                if plan.own:
                    assert zk_connect is not None
                    chroot = f"{zk_connect}/round-{number}-{code}"
                    systems.insert(
                        0, stack.enter_context(own_broker(plan.log_base, zk_connect=chroot, pure=code == PURE))
                    )
                for system in systems:
                    yield from _lines(plan, number, code, system, on_step)


def can_run(line: Line, system: KafkaBroker) -> bool:
    """Say whether a line can be measured against a system with the clients there are."""
    return system.zk_connect is not None or not line.needs_group


def _lines(
    plan: Plan, number: int, code: str, system: KafkaBroker, on_step: Callable[[str], object]
) -> Iterator[Sample]:
    filled: dict[int, tuple[str, int]] = {}
    for line in plan.lines:
        if not can_run(line, system):
            continue
        on_step(f"round {number} of {plan.rounds}: {system.name}, {code}, {line.title}")
        if line.reads and line.messages not in filled:
            filled[line.messages] = fill(system, line.messages)
        yield measure(number, system, code, line, *filled.get(line.messages, ("", 0)))


def measure(number: int, system: KafkaBroker, code: str, line: Line, topic: str, end_offset: int) -> Sample:
    """Measure one line once. Raises BenchmarkError when not all its messages landed, or were read.

    A line that reads does so from `topic`, which ends at `end_offset`; others write to a topic of their own.
    """
    if not line.reads:
        topic = new_topic()
    job = _job(line, topic, system.server())
    with (
        SimpleConsumer(system.host, system.port) as counter,
        Worker(_DRIVER, job.facts(), pure=code == PURE) as client,
    ):
        warm_messages = client.facts.get("warm_messages", 0)
        if warm_messages:
            check_landed(counter, topic, warm_messages)
        broker_before_s = system.cpu_s()
        client.go()
        result = client.result()
        broker_after_s = system.cpu_s()
        if not line.reads:
            check_landed(counter, topic, warm_messages + line.messages)
        elif result["end_offset"] != end_offset:
            raise BenchmarkError(f"{topic} was read to offset {result['end_offset']}: it ends at {end_offset}")
    broker_cpu_s = None
    if broker_before_s is not None and broker_after_s is not None:
        broker_cpu_s = broker_after_s - broker_before_s
    return _sample(number, system.name, code, line, result, broker_cpu_s)


def measure_yardstick(number: int, yardstick: Yardstick) -> Sample:
    """Measure one yardstick once: what the kernel and Python's socket take for the same bytes."""
    with Worker(_SINK, {}) as sink:
        job = _job(yardstick, new_topic(), {"host": "127.0.0.1", "port": sink.facts["port"]})
        with Worker(_DRIVER, job.facts()) as client:
            sink.go()
            client.go()
            result = client.result()
            received_bytes = sink.result()["bytes"]
    if received_bytes != result["sent_bytes"]:
        raise BenchmarkError(f"{result['sent_bytes']} bytes were sent, but {received_bytes} came")
    return _sample(number, YARDSTICK_SYSTEM, COMPILED, yardstick, result, None)


def fill(system: KafkaBroker, messages: int) -> tuple[str, int]:
    """Write a topic to read from; return its name and where it ends."""
    topic = new_topic()
    with SyncProducer(system.host, system.port) as producer:
        for batch in batches(messages):
            producer.send(topic, batch, 0)
    with SimpleConsumer(system.host, system.port) as counter:
        return topic, check_landed(counter, topic, messages)


def _job(line: Line | Yardstick, topic: str, server: Mapping[str, Any]) -> Job:
    return Job(
        do="consume" if isinstance(line, Line) and line.reads else "produce",
        client=line.client,
        topic=topic,
        messages=line.messages,
        every=line.messages,
        batch=line.batch,
        server=server,
    )


def _sample(
    number: int,
    system: str,
    code: str,
    line: Line | Yardstick,
    result: dict[str, Any],
    broker_cpu_s: float | None,
) -> Sample:
    return Sample(
        round=number,
        system=system,
        code=code,
        line=line.name,
        messages=line.messages,
        cpu_s=result["cpu_s"],
        wall_s=result["wall_s"],
        broker_cpu_s=broker_cpu_s,
    )
