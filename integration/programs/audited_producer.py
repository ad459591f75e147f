"""A producer of the tier `producer` that is killed when its events are confirmed and counted, and not yet reported."""

import os
import signal
import sys

from kafka2011 import Producer
from kafka2011.audit.publishing import open_counter
from kafka2011.events.codec import EventEncoder
from kafka2011.events.publisher import EventPublisher
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.types import CLICK
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually
from zk.connecting import connect


def main(zk_connect: str, topic: str, at_s: str, messages: str) -> None:
    """Publish so many events at one time."""
    settings = {"zk.connect": zk_connect, "producer.type": "async", "confirm": True}
    clock = ManualClock(float(at_s))
    counter = open_counter("producer", zk_connect, clock=clock)
    producer = Producer(settings)
    with connect(zk_connect) as client:
        encoder = EventEncoder(SchemaRegistry(client), {topic: CLICK})
        publisher = EventPublisher(producer, encoder, counter=counter, clock=clock)
        for _ in range(int(messages)):
            publisher.publish(topic, {"item": "a", "position": 1})
        producer.flush()
        eventually(lambda: counter.waiting_messages + counter.unpublished.messages == int(messages))
        os.kill(os.getpid(), signal.SIGKILL)


main(*sys.argv[1:])
