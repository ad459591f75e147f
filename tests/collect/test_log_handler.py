"""The handler for `logging`, against a scripted broker."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

import pytest

from kafka2011.collect.log_handler import KafkaLogHandler
from kafka2011.errors import ConfigError
from kafka2011.message.topic import InvalidTopicError
from tests.support.produce_broker import ProduceBroker
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    NewHandler = Callable[..., KafkaLogHandler]

application = logging.getLogger("application")


@pytest.fixture
def broker() -> Iterator[ProduceBroker]:
    broker = ProduceBroker(0)
    yield broker
    broker.close()


@pytest.fixture
def new_handler(broker: ProduceBroker) -> Iterator[NewHandler]:
    """Make handlers of the application's logger, and of this package's."""
    made: list[KafkaLogHandler] = []
    loggers = (application, logging.getLogger("kafka2011"), logging.getLogger("zk"))

    def make(settings: dict[str, object] | None = None, **arguments: object) -> KafkaLogHandler:
        config = {"broker.list": f"0:127.0.0.1:{broker.port}", "queue.time": 1, **(settings or {})}
        handler = KafkaLogHandler(config, "log", **{"flush_timeout_ms": 60_000, **arguments})  # type: ignore[arg-type]
        made.append(handler)
        for each in loggers:
            each.addHandler(handler)
        return handler

    application.setLevel(logging.INFO)
    yield make
    for handler in made:
        for each in loggers:
            each.removeHandler(handler)
        handler.close()


def test_records_become_messages(
    broker: ProduceBroker, new_handler: NewHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Formatted, in UTF-8, in order, and confirmed when `flush` returns."""
    monkeypatch.setattr(application, "propagate", False)  # pytest-xdist cannot pass on half a pair
    handler = new_handler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    for number in range(100):
        application.info("caf\xe9 %d", number)
    application.warning("half a pair: \udc00")
    handler.flush()
    expected = [f"INFO caf\xe9 {number}".encode() for number in range(100)]
    assert broker.payloads == [*expected, b"WARNING half a pair: \\udc00"]
    assert handler.counts.lines_confirmed == 101


def test_an_encoder_may_make_events(broker: ProduceBroker, new_handler: NewHandler) -> None:
    """It gets the record, and makes the payload."""
    handler = new_handler(encode=lambda record: b"\xc3\x01" + record.name.encode())
    application.info("one")
    handler.flush()
    assert broker.payloads == [b"\xc3\x01application"]


def test_what_it_logs_itself_goes_elsewhere(broker: ProduceBroker, new_handler: NewHandler) -> None:
    """Records of the package, and of its ZooKeeper client, would make more of themselves."""
    handler = new_handler()
    for name in ("kafka2011", "kafka2011.producer.sender", "zk.kazoo"):
        logging.getLogger(name).error("about myself")
    application.info("one")
    handler.flush()
    assert broker.payloads == [b"one"]


def test_logging_goes_on_while_the_cluster_is_away(
    broker: ProduceBroker, new_handler: NewHandler, caplog: pytest.LogCaptureFixture
) -> None:
    """Records wait up to the bound; what is beyond it is dropped, counted and told; nothing is raised."""
    broker.refuse()
    handler = new_handler(max_records=10)
    for number in range(25):
        application.info("%d", number)
    assert handler.counts.dropped == 15
    broker.start()
    handler.flush()
    assert broker.payloads == [b"%d" % number for number in range(10)]
    eventually(lambda: "15 log records for topic log were dropped: the queue is full" in caplog.text)
    application.info("more")
    handler.flush()
    assert broker.payloads[10:] == [b"more"]


def test_logging_may_wait_for_room(broker: ProduceBroker, new_handler: NewHandler) -> None:
    """With max_wait_ms a record waits so long for another one to be confirmed."""
    broker.answering.clear()
    handler = new_handler(max_records=1, max_wait_ms=60_000)
    application.info("one")
    waiting = threading.Thread(target=application.info, args=["two"])
    waiting.start()
    eventually(lambda: broker.payloads == [b"one"])
    broker.answering.set()
    waiting.join(30)
    handler.flush()
    assert broker.payloads == [b"one", b"two"]
    assert handler.counts.dropped == 0


def test_a_record_that_cannot_be_formatted_raises_nothing(
    broker: ProduceBroker,
    new_handler: NewHandler,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is reported as by other handlers, and the next one is sent."""
    handler = new_handler()
    monkeypatch.setattr(application, "propagate", False)  # pytest's own handler raises
    application.info("%d", "no number")
    application.info("one")
    handler.flush()
    assert broker.payloads == [b"one"]
    assert "--- Logging error ---" in capsys.readouterr().err


def test_a_long_record_is_cut(broker: ProduceBroker, new_handler: NewHandler) -> None:
    """To max.message.size, with a mark."""
    handler = new_handler({"max.message.size": 200})
    application.info("x" * 1000)
    handler.flush()
    [payload] = broker.payloads
    assert len(payload) <= 200
    assert payload.endswith(b" [cut: 823 bytes more]")


def test_close_does_not_wait_for_ever(
    broker: ProduceBroker, new_handler: NewHandler, caplog: pytest.LogCaptureFixture
) -> None:
    """What is not confirmed in time is told; closing again, and logging afterwards, do nothing."""
    broker.refuse()
    handler = new_handler(flush_timeout_ms=50)
    application.info("one")
    handler.close()
    assert "1 log records for topic log were not confirmed" in caplog.text
    handler.close()
    application.info("two")
    assert handler.counts.dropped == 1


def test_it_begins_without_zookeeper(new_handler: NewHandler, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for a cluster that is not there at the start."""
    settings = {"broker.list": "", "zk.connect": "127.0.0.1:1", "zk.connectiontimeout.ms": 100}
    new_handler(settings, flush_timeout_ms=50)
    application.info("one")
    eventually(lambda: "log records for topic log wait" in caplog.text)


def test_a_shutdown_waits_once_for_brokers_that_are_away(
    new_handler: NewHandler, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`logging.shutdown` flushes and closes: what the one has waited for in vain, the other does not wait for again."""
    settings = {"broker.list": f"0:127.0.0.1:{closed_port}", "confirm.timeout.ms": 1000}
    handler = new_handler(settings, flush_timeout_ms=300)
    application.info("one")
    waits: list[float] = []
    thread = handler._thread
    assert thread is not None
    monkeypatch.setattr(thread, "join", waits.append)
    handler.flush()
    handler.close()
    assert waits == [pytest.approx(0, abs=0.06)]
    monkeypatch.undo()
    thread.join()


def test_a_shutdown_waits_on_when_something_was_confirmed_meanwhile(
    broker: ProduceBroker, new_handler: NewHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers that are back get what is left."""
    broker.answering.clear()
    handler = new_handler(flush_timeout_ms=300)
    application.info("one")
    handler.flush()
    assert handler.counts.lines_confirmed == 0
    broker.answering.set()
    eventually(lambda: handler.counts.lines_confirmed == 1)
    thread = handler._thread
    assert thread is not None
    waits: list[float] = []
    monkeypatch.setattr(thread, "join", waits.append)
    handler.close()
    assert waits[0] > 0.1
    monkeypatch.undo()
    thread.join()


def test_a_forked_child_begins_anew(broker: ProduceBroker, new_handler: NewHandler) -> None:
    """Parent and child send what each has logged, over connections of their own."""
    handler = new_handler({"queue.time": 60_000}, flush_timeout_ms=30_000)
    application.info("parent")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            application.info("child")
            handler.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    handler.close()
    assert sorted(broker.payloads) == [b"child", b"parent"]


def test_what_cannot_work_is_refused_at_once() -> None:
    """A wrong setting or topic is an error of the application's start."""
    with pytest.raises(ConfigError, match=r"needs producer\.type=async"):
        KafkaLogHandler({"broker.list": "0:h:1", "producer.type": "sync"}, "log")
    with pytest.raises(InvalidTopicError):
        KafkaLogHandler({"broker.list": "0:h:1"}, "no topic")
