"""A producer of the tier `producer` that is killed when its events are confirmed and counted, and not yet reported."""

import os
import signal
import sys

from kafka2011 import Producer
from kafka2011.pipeline.audit.publishing import open_counter
from kafka2011.pipeline.event_types import CLICK
from kafka2011.pipeline.events import EventEncoder
from kafka2011.pipeline.publisher import EventPublisher
from kafka2011.pipeline.registry import SchemaRegistry
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually
from zk.connecting import connect


def main(zk_connect: str, topic: str, at_s: str, messages: str) -> None:
    """Publish so many events at one time."""
    settings = {"zk.connect": zk_connect, "producer.type": "async", "confirm": True}
    counter = open_counter("producer", zk_connect)
    producer = Producer(settings)
    with connect(zk_connect) as client:
        encoder = EventEncoder(SchemaRegistry(client), {topic: CLICK})
        publisher = EventPublisher(producer, encoder, counter=counter, clock=ManualClock(float(at_s)))
        for _ in range(int(messages)):
            publisher.publish(topic, {"item": "a", "position": 1})
        producer.flush()
        eventually(lambda: counter._waiting_messages + counter._tally.messages == int(messages))
        os.kill(os.getpid(), signal.SIGKILL)


main(*sys.argv[1:])
