"""Appending payloads to open batches, in C and in Python: both do the same, and neither while somebody has the lock."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.config import ProducerConfig
from kafka2011.producer import appending
from kafka2011.producer.accumulator import Accumulator
from tests.support.clocks import ManualClock
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.producer.appending import AppendCode

WHERE = TopicPartition("views", 0, 0)


class Text(str):
    """A topic that runs Python code when it is looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


@pytest.fixture(scope="module")
def code() -> AppendCode:
    if appending.compiled is None:
        pytest.skip("no C code: scripts/setup.sh builds it where there is a compiler, KAFKA2011_PURE leaves it out")
    return appending.compiled


def accumulator(queue_size: int = 100) -> Accumulator:
    config = ProducerConfig.from_properties(
        {"broker.list": "0:h:1", "producer.type": "async", "batch.size": 4, "queue.size": queue_size}
        | {"max.message.size": 50}
    )
    return Accumulator(config, ManualClock(), lambda _: None)


def state(made: Accumulator) -> list[object]:
    """Return all that an append may change."""
    found: list[object] = []
    for queue in made.queues.values():
        found += [queue.bound.room_messages, queue.bound.room_bytes, [each.payloads for each in queue.ready]]
        found += [(each.payloads, each.room_messages, each.room_bytes) for each in queue.open.values()]
    return found


@pytest.mark.usefixtures("code")
@given(st.lists(st.one_of(st.none(), st.binary(max_size=60)), max_size=30), st.integers(4, 12))
def test_both_append_the_same(payloads: list[bytes | None], queue_size: int) -> None:
    """Whatever is sent, batches and bounds are the same after each payload; None: one is sent with others."""
    compiled = accumulator(queue_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(appending, "compiled", None)
        python = accumulator(queue_size)
    for payload in payloads:
        appended = []
        for made in (compiled, python):
            if payload is None:
                with made.lock:
                    if made.queues and made.queues[0].bound.room_messages < 1:
                        continue
                future = made.append(WHERE, [b"begun"], movable=True, timeout_ms=0)
                appended.append(future is not None)
            else:
                appended.append(made.append_payload("views", payload) is not None)
        assert len(set(appended)) <= 1
        assert state(compiled) == state(python)


@pytest.mark.usefixtures("code")
def test_nothing_is_appended_while_somebody_has_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is left to Python, which waits for it."""
    left: list[bytes] = []

    def wait(_: Accumulator, topic: str, payload: bytes) -> None:
        left.append(payload)

    monkeypatch.setattr(Accumulator, "_append_payload", wait)
    made = accumulator()
    batch = made.append(WHERE, [b"a"], movable=True, timeout_ms=0)
    with made.lock:
        assert made.append_payload("views", b"b") is None
    assert made.append_payload("views", b"c") is batch
    assert left == [b"b"]
    assert [each.payloads for each in made.open_batches] == [[b"a", b"c"]]


def test_what_could_run_python_code_is_left_to_python(code: AppendCode) -> None:
    """A topic that is more than text, and a payload that is more than bytes."""
    left: list[tuple[str, bytes]] = []

    def otherwise(topic: str, payload: bytes) -> None:
        left.append((topic, payload))

    made = accumulator()
    batch: Any = made.append(WHERE, [b"a"], movable=True, timeout_ms=0)
    append = code.appender({"views": batch}, lambda: False, otherwise)
    assert append("views", b"b") is batch
    for topic, payload in ((Text("views"), b"c"), ("views", bytearray(b"d")), ("other", b"e")):
        assert append(topic, payload) is None  # type: ignore[arg-type]
    assert [payload for _, payload in left] == [b"c", bytearray(b"d"), b"e"]
    assert [each.payloads for each in made.open_batches] == [[b"a", b"b"]]


def test_errors_are_passed_on(code: AppendCode) -> None:
    """Of whoever is asked, and of a batch that is none."""

    def refuse(*_: object) -> Any:
        raise LookupError("refused")

    def is_free() -> bool:
        return False

    with pytest.raises(LookupError, match="refused"):
        code.appender({}, refuse, refuse)("views", b"a")
    with pytest.raises(LookupError, match="refused"):
        code.appender({}, is_free, refuse)("views", b"a")
    batches: dict[str, Any] = {"views": 1}
    with pytest.raises(AttributeError, match="bound"):
        code.appender(batches, is_free, refuse)("views", b"a")
    unchecked: Any = code.appender
    wrong: tuple[object, ...]
    for wrong in ((), ([], refuse, refuse), ({}, refuse)):
        with pytest.raises(TypeError):
            unchecked(*wrong)
    with pytest.raises(TypeError):
        unchecked({}, refuse, refuse)("views")


@pytest.mark.usefixtures("code")
def test_nothing_is_kept() -> None:
    """Neither messages nor, once nobody has it any more, what appends them."""
    made = accumulator(queue_size=10_000)
    payload = bytes(range(20))
    before = sys.getrefcount(payload)
    for _ in range(100):
        made.append(WHERE, [b"a"], movable=True, timeout_ms=0)
        made.append_payload("views", payload)
        made.close_all()
    for queue in made.queues.values():
        queue.ready.clear()
    made.open_batches.clear()
    assert sys.getrefcount(payload) == before
    gone = weakref.ref(made)
    del made, queue
    gc.collect()
    assert gone() is None
