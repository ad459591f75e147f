"""A broker that runs out of file descriptors refuses what needs more of them, and goes on with the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError
from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import FetchRequest, MultiFetchRequest, ProduceRequest, encode_request
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.local_cluster import LocalBroker
    from kafka2011.wire.connection import BrokerConnection

    NewBroker = Callable[..., LocalBroker]
    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    Counts = Callable[[LocalBroker], dict[str, int]]

BARRIER = encode_request(MultiFetchRequest(()))
ONE = bytes(MessageSet([b"one"]))
MAX_CONNECTIONS = 32
RESERVED = 16


def produce(topic: str) -> bytes:
    return encode_request(ProduceRequest(topic, 0, ONE))


def is_served(connection: BrokerConnection) -> bool:
    try:
        connection.send(BARRIER)
        connection.receive()
    except BrokerConnectionError:
        return False
    return True


def test_too_many_connections(new_broker: NewBroker, open_connection: OpenConnection, counts_of: Counts) -> None:
    """Half of the files are for connections: those beyond are closed, logged and counted, until others have gone."""
    broker = new_broker(program="few_files.py")
    broker.start()
    connections = [open_connection(broker) for _ in range(MAX_CONNECTIONS + 10)]
    served = [connection for connection in connections if is_served(connection)]
    assert len(served) == MAX_CONNECTIONS
    assert counts_of(broker)["refused"] == 10
    assert broker.output().count(b"there are 32 connections already") == 10
    served[0].send(produce("views"))
    assert all(is_served(connection) for connection in served)
    served.pop().close()
    eventually(lambda: is_served(open_connection(broker)))


def test_too_many_logs(new_broker: NewBroker, open_connection: OpenConnection, counts_of: Counts) -> None:
    """New topics are refused, with the limit, while files are left; those that are there and connections go on."""
    broker = new_broker({"topic.partition.count.map": "first:2"}, program="few_files.py")
    broker.start()
    connection = open_connection(broker)
    connection.send(produce("first"))
    other = open_connection(broker)
    made = 0
    while True:
        other.send(produce(f"t{made}"))
        if not is_served(other):
            break
        made += 1
    assert made == 64 - MAX_CONNECTIONS - RESERVED - 2
    assert b"and it may have 16: the process may hold 64 files open" in broker.output()
    assert counts_of(broker)["refused_topics"] == 1
    connection.send(produce("first") + encode_request(ProduceRequest("first", 1, ONE)))
    assert is_served(connection)
    connections = [open_connection(broker) for _ in range(MAX_CONNECTIONS - 1)]
    assert all(is_served(each) for each in connections)
    assert b"raise the limit on open files" not in broker.output()


def test_readers_that_take_their_time(
    new_broker: NewBroker, open_connection: OpenConnection, counts_of: Counts
) -> None:
    """Readers of many old segments that read nothing leave enough files for rolling, and get all of it in the end.

    Their segments are deleted after they were sent.
    """
    settings = {"log.flush.interval": 1, "log.file.size": 20_000, "log.cleanup.interval.mins": 0.002}
    settings["socket.send.buffer"] = 100_000
    broker = new_broker({**settings, "log.retention.size": 120 * 20_000}, program="few_files.py")
    broker.start()
    producer = open_connection(broker)
    data = bytes(MessageSet([bytes(20_100)]))

    def publish(count: int) -> None:
        for _ in range(count):
            producer.send(encode_request(ProduceRequest("views", 0, data)))
            producer.request(BARRIER)

    publish(110)
    everything = tuple(FetchRequest("views", 0, number * len(data), len(data)) for number in range(100))
    slow = [open_connection(broker) for _ in range(3)]
    for connection in slow:
        connection.send(encode_request(MultiFetchRequest(everything)))
    eventually(lambda: counts_of(broker).get("multifetch", 0) >= 110 + len(slow))
    publish(60)
    eventually(lambda: b"will be deleted later" in broker.output())
    assert is_served(open_connection(broker))
    for connection in slow:
        assert connection.receive().count(data) == len(everything)
    eventually(lambda: counts_of(broker)["deleted_segments"] >= 40)
    assert b"CRITICAL" not in broker.output()
