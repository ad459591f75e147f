"""Synchronous sends of a Producer, against scripted brokers on real sockets."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from kafka2011.errors import BrokerConnectionError
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.accumulator import Accumulator
from kafka2011.producer.batch import Receipt
from kafka2011.producer.errors import ConfirmTimeoutError, ProducerClosedError, SetRefusedError
from kafka2011.producer.producer import Producer
from tests.support.produce_broker import KnownBrokers
from tests.support.waiting import eventually
from zk.cluster import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.producer.batch import FailedBatch
    from kafka2011.producer.producer_connection import ProducerConnection
    from kafka2011.wire.protocol import ProduceRequest
    from tests.support.produce_broker import ProduceBroker

    NewBroker = Callable[[], ProduceBroker]


def settings_for(*brokers: ProduceBroker, **settings: object) -> dict[str, object]:
    listed = ",".join(f"{broker.broker_id}:127.0.0.1:{broker.port}" for broker in brokers)
    return {"broker.list": listed, **{key.replace("_", "."): value for key, value in settings.items()}}


def connection_of(producer: Producer) -> ProducerConnection:
    connection = producer._senders[0]._connection
    assert connection is not None
    return connection


@pytest.mark.parametrize("confirm", [False, True])
def test_a_send_is_one_set_in_order(broker: ProduceBroker, confirm: bool) -> None:
    """Single payloads, lists and ready sets, one after the other; closing waits until all was handled."""
    with Producer(settings_for(broker, confirm=confirm)) as producer:
        assert producer.send("t", b"1").result(0).messages == 1
        assert producer.send("t", [b"2", b"3"], key="k").result(0).messages == 2
        assert producer.send("t", MessageSet([b"4"])).result(0).confirmed is confirm
    assert [payloads for _, _, payloads in broker.sets] == [[b"1"], [b"2", b"3"], [b"4"]]
    assert broker.connections == 1
    assert broker.unasked_ends == 0
    with pytest.raises(ProducerClosedError):
        producer.send("t", b"5")


@pytest.mark.parametrize("confirm", [False, True])
def test_the_usual_send_needs_no_batch(broker: ProduceBroker, confirm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is a connection, and as long as nothing goes wrong; it is counted as any other."""
    with Producer(settings_for(broker, confirm=confirm)) as producer:
        producer.send("t", b"1")
        with monkeypatch.context() as patch:
            patch.setattr(Accumulator, "append", None)
            assert producer.send("t", b"2").result(0).messages == 1
            assert producer.send("t", [b"3", b"4"], key="k").result(0) == Receipt("t", 0, 0, 2, confirm, 0)
        assert (producer.counts.messages_sent, producer.counts.sets_sent) == (4, 3)
    assert broker.payloads == [b"1", b"2", b"3", b"4"]


def test_a_confirmed_set_in_doubt_is_sent_again(broker: ProduceBroker) -> None:
    """As a batch, which is the second time."""
    with Producer(settings_for(broker, confirm=True)) as producer:
        producer.send("t", b"1")
        broker.end_connections()
        eventually(lambda: connection_of(producer).ended_by_broker())
        assert producer.send("t", b"2").result(0).resends == 1
        assert producer.counts.broken_connections == 1
    assert broker.payloads == [b"1", b"2"]


def test_without_a_key_a_send_finds_a_broker_that_is_there(new_broker: NewBroker) -> None:
    """A broker that refuses connections is passed over, and nothing is sent twice."""
    brokers = [new_broker(), new_broker()]
    brokers[0].stop()
    with Producer(settings_for(*brokers)) as producer:
        for number in range(20):
            producer.send("t", b"%d" % number)
    assert brokers[1].payloads == [b"%d" % number for number in range(20)]


def test_with_a_key_a_send_to_a_broker_that_is_gone_fails(broker: ProduceBroker) -> None:
    """The error names the broker, and the failure is counted."""
    with Producer(settings_for(broker)) as producer:
        broker.stop()
        with pytest.raises(BrokerConnectionError, match=f"127.0.0.1:{broker.port}"):
            producer.send("t", [b"1", b"2"], key="k")
    assert producer.counts.messages_failed == 2


@pytest.mark.parametrize("is_there", [True, False])
def test_closing_ends_what_another_thread_is_about_to_send(broker: ProduceBroker, is_there: bool) -> None:
    """A send that the end overtakes is done by then, or has failed and the application was told."""
    failed: list[FailedBatch] = []
    producer = Producer(settings_for(broker), on_failure=failed.append)
    if not is_there:
        broker.stop()
    future = producer._queue("t", b"1", "k", None)
    producer.close()
    assert future.done()
    assert broker.payloads == [b"1"] * is_there
    assert [each.messages for each in failed] == [[b"1"]] * (not is_there)
    with contextlib.nullcontext() if is_there else pytest.raises(BrokerConnectionError):
        producer._drive(future)


def test_a_witness_is_closed_when_its_broker_has_moved(new_broker: NewBroker) -> None:
    """The second connection, which shows that a set is to blame, goes along with the first one."""
    old, new = new_broker(), new_broker()
    witnesses: list[ProducerConnection] = []
    info = KnownBrokers([old])

    def script(_request: ProduceRequest) -> bool:
        witness = producer._senders[0].witness.connection
        if witness is not None:
            witnesses.append(witness)
            info._brokers[0] = Broker(0, "127.0.0.1", new.port)
        return False

    old.script = script
    with Producer(settings_for(old, confirm=True), info=info) as producer:
        assert producer.send("t", b"1", key="k").result(0).resends == 2
        [witness] = witnesses
        assert not witness.is_open
    assert new.payloads == [b"1"]


def test_a_connection_that_the_broker_ended_is_noticed(broker: ProduceBroker) -> None:
    """The next send goes out on a new one, and the end is counted, since sets may have been lost."""
    with Producer(settings_for(broker)) as producer:
        producer.send("t", b"1")
        eventually(lambda: broker.payloads == [b"1"])
        broker.end_connections()
        eventually(connection_of(producer).ended_by_broker)
        connection_of(producer)._look_at_s = 0.0  # it does not look for every send
        producer.send("t", b"2")
    assert broker.payloads == [b"1", b"2"]
    assert producer.counts.broken_connections == 1


def test_a_confirmed_send_in_doubt_is_sent_again(broker: ProduceBroker) -> None:
    """The connection ends before the answer: the set comes a second time, and the send succeeds."""
    ends = iter([False])
    broker.script = lambda _request: next(ends, True)
    with Producer(settings_for(broker, confirm=True)) as producer:
        producer.send("t", b"1", key="k")
    assert broker.payloads == [b"1"]
    assert (producer.counts.sets_resent, producer.counts.broken_connections) == (1, 1)


def test_a_confirmed_send_that_is_refused_fails(broker: ProduceBroker) -> None:
    """After a few tries, each on a connection that the broker has proven to serve."""
    broker.script = lambda request: b"poison" not in request.messages
    with Producer(settings_for(broker, confirm=True)) as producer:
        with pytest.raises(SetRefusedError, match="for t/0-0 alone"):
            producer.send("t", b"poison", key="k")
        producer.send("t", b"good", key="k")
    assert broker.payloads == [b"good"]
    assert producer.counts.sets_refused == 1
    assert broker.connections <= 6


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "is-gone"])
def test_a_confirmed_send_has_its_time(broker: ProduceBroker, hangs: bool) -> None:
    """It fails after confirm.timeout.ms, and says whether the set may have arrived."""
    with Producer(settings_for(broker, confirm=True, confirm_timeout_ms=300)) as producer:
        if hangs:
            broker.answering.clear()
        else:
            broker.stop()
        with pytest.raises(ConfirmTimeoutError, match="may have been written" if hangs else "was not sent"):
            producer.send("t", b"1", key="k")
        broker.answering.set()
