"""Rounds: in each, every line once against every system, so that what the machine does meanwhile meets all alike."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka2011 import SimpleConsumer, SyncProducer
from paper_benchmarks.accounting import check_landed
from paper_benchmarks.clients import work
from paper_benchmarks.clients.lines import COMPILED, PURE
from paper_benchmarks.samples import Sample
from paper_benchmarks.systems import own_system
from paper_benchmarks.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from paper_benchmarks.clients.lines import Line, Yardstick
    from paper_benchmarks.systems import System

YARDSTICK_SYSTEM = "sink"
_WORK = "paper_benchmarks.clients.work"
_SINK = "paper_benchmarks.sink"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured."""

    rounds: int
    codes: Sequence[str]
    lines: Sequence[Line]
    yardsticks: Sequence[Yardstick]
    others: Sequence[System]
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
                    systems.insert(0, stack.enter_context(own_system(chroot, plan.log_base, pure=code == PURE)))
                for system in systems:
                    yield from _lines(plan, number, code, system, on_step)


def can_run(line: Line, system: System) -> bool:
    """Say whether a line can be measured against a system with the clients there are."""
    return system.zk_connect is not None or not line.needs_group


def _lines(plan: Plan, number: int, code: str, system: System, on_step: Callable[[str], object]) -> Iterator[Sample]:
    filled: dict[int, tuple[str, int]] = {}
    for line in plan.lines:
        if not can_run(line, system):
            continue
        on_step(f"round {number} of {plan.rounds}: {system.name}, {code}, {line.title}")
        if line.reads and line.messages not in filled:
            filled[line.messages] = fill(system, line.messages)
        yield measure(number, system, code, line, *filled.get(line.messages, ("", 0)))


def measure(number: int, system: System, code: str, line: Line, topic: str, end_offset: int) -> Sample:
    """Measure one line once. Raises BenchmarkError when not all its messages landed, or were read.

    A line that reads does so from `topic`, which ends at `end_offset`; others write to a topic of their own.
    """
    if not line.reads:
        topic = new_topic()
    job = _job(line, system.host, system.port, topic=topic, end_offset=end_offset, zk_connect=system.zk_connect)
    with SimpleConsumer(system.host, system.port) as counter, Worker(_WORK, job, pure=code == PURE) as client:
        warm_messages = client.facts.get("warm_messages", 0)
        if warm_messages:
            check_landed(counter, topic, warm_messages)
        broker_before_s = system.cpu_s()
        client.go()
        result = client.result()
        broker_after_s = system.cpu_s()
        if not line.reads:
            check_landed(counter, topic, warm_messages + line.messages)
    broker_cpu_s = None
    if broker_before_s is not None and broker_after_s is not None:
        broker_cpu_s = broker_after_s - broker_before_s
    return _sample(number, system.name, code, line, result, broker_cpu_s)


def measure_yardstick(number: int, yardstick: Yardstick) -> Sample:
    """Measure one yardstick once: what the kernel and Python's socket take for the same bytes."""
    with Worker(_SINK, {}) as sink, Worker(_WORK, _job(yardstick, "127.0.0.1", sink.facts["port"])) as client:
        sink.go()
        client.go()
        result = client.result()
        sink.result()
    return _sample(number, YARDSTICK_SYSTEM, COMPILED, yardstick, result, None)


def fill(system: System, messages: int) -> tuple[str, int]:
    """Write a topic to read from; return its name and where it ends."""
    topic = new_topic()
    with SyncProducer(system.host, system.port) as producer:
        for batch in work.batches(messages):
            producer.send(topic, batch, 0)
    with SimpleConsumer(system.host, system.port) as counter:
        return topic, check_landed(counter, topic, messages)


def new_topic() -> str:
    """Return a name that no broker has met; eight letters, so that a request with one message has 234 bytes."""
    return secrets.token_hex(4)


def _job(line: Line | Yardstick, host: str, port: int, **more: Any) -> dict[str, Any]:
    return {"line": line.name, "messages": line.messages, "host": host, "port": port, **more}


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
