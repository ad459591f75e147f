"""`kafka2011 generate`."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.options import (
    examples,
    one_address,
    parse_broker,
    property_option,
    read_time_ms,
    refuse_properties,
    zookeeper_option,
)
from kafka2011.cli.output import counted, json_option, show_table
from kafka2011.cli.session import open_session
from kafka2011.cli.stopping import stop_signals
from kafka2011.config import ProducerConfig
from kafka2011.errors import KafkaError
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable

    from kafka2011.audit.counter import AuditCounter
    from kafka2011.events.generate import Generated
    from kafka2011.events.machine import Machine
    from kafka2011.events.publisher import EventPublisher
    from kafka2011.producer.batch import FailedBatch
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

_TICK_S = 0.05
_BEHIND_S = 2.0
_MAX_TOGETHER = 1000
_MACHINE_EVERY_S = 10.0
_SHARE = click.FloatRange(0, 1)
_OPTIONS_OF = {"zk.connect": "--zookeeper", "broker.list": "--broker"}
_CHOSEN = ("confirm", "producer.type", "serializer.class")


def _read_start(text: str) -> int:
    if text == "now":
        return int(SYSTEM_CLOCK.wall_s() * 1_000_000)
    return read_time_ms(text, "is neither now nor a time") * 1000


@click.command(
    "generate",
    epilog=examples(
        "kafka2011 generate --rate 500 --users 10000 --seconds 60 --seed 7",
        "kafka2011 generate --start now --late 0.05 --repeated 0.01 --machine --audit producer",
    ),
)
@zookeeper_option
@click.option(
    "--broker",
    type=parse_broker,
    metavar="HOST:PORT",
    help="Publish through this one address, such as a load balancer's. Schemas still come from ZooKeeper.",
)
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), default=100.0, show_default=True, help="Events per second."
)
@click.option(
    "--users", type=click.IntRange(1), default=1000, show_default=True, help="The number of members of the network."
)
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="How long to publish.  [default: until Ctrl-C]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same events.")
@click.option("--servers", type=click.IntRange(1), default=4, show_default=True, help="The number of servers.")
@click.option(
    "--start",
    "start_us",
    type=_read_start,
    metavar="now|TIME",
    help="The time of the first event.  [default: 2011-06-12, so that a seed also repeats times]",
)
@click.option(
    "--day",
    "day_s",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    help="The length of a day in seconds. --rate is the mean of a day; the rate varies over the day.",
)
@click.option("--late", type=_SHARE, default=0.01, show_default=True, help="The share of events published late.")
@click.option("--repeated", type=_SHARE, default=0.001, show_default=True, help="The share of events published twice.")
@click.option("--machine", is_flag=True, help="Also publish measurements of this machine; no seed repeats them.")
@click.option("--at-once", is_flag=True, help="Publish as fast as possible; needs --seconds.")
@click.option("--audit", "tier", metavar="TIER", help="Count confirmed events as this tier of `kafka2011 audit`.")
@property_option
@json_option
def command(
    zk_connect: str,
    broker: Broker | None,
    rate: float,
    users: int,
    seconds: float | None,
    seed: int,
    servers: int,
    start_us: int | None,
    day_s: float,
    late: float,
    repeated: float,
    machine: bool,
    at_once: bool,
    tier: str | None,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Publish synthetic events of a social network.

    The command registers their schemas and writes to the topics page_views, searches, impressions, clicks and
    server_stats. The same options give the same events, except for published_at. Once all events are confirmed, it
    prints the number of events of each topic.
    """
    from kafka2011.events.codec import EventEncoder
    from kafka2011.events.generate import DEFAULT_START_US, Profile, synthetic_events
    from kafka2011.events.publisher import EventPublisher
    from kafka2011.events.schema_registry import SchemaRegistry
    from kafka2011.events.types import EVENT_TYPES
    from kafka2011.producer.producer import Producer

    if at_once and seconds is None:
        raise click.UsageError("--at-once needs --seconds")
    refuse_properties(properties, _OPTIONS_OF, fixed=_CHOSEN)
    where = {"zk.connect": zk_connect, "broker.list": ""}
    if broker is not None:
        where = {"zk.connect": "", "broker.list": one_address(broker)}
    config = ProducerConfig.from_sources(
        environ=os.environ,
        overrides=[
            *properties,
            *(f"{key}={value}" for key, value in where.items()),
            "producer.type=async",
            "confirm=true",
        ],
        option="--property",
    )
    profile = Profile(
        rate=rate,
        users=users,
        servers=servers,
        seed=seed,
        start_us=DEFAULT_START_US if start_us is None else start_us,
        day_s=day_s,
        late=late,
        repeated=repeated,
    )
    with open_session(zk_connect) as client:
        registry = SchemaRegistry(client)
        for topic, schema in EVENT_TYPES.items():
            registry.register(topic, schema)
    failures: list[FailedBatch] = []
    with (
        stop_signals() as stop,
        contextlib.nullcontext() if tier is None else _open_counter(tier, zk_connect, where["broker.list"]) as counter,
        Producer(config, on_failure=failures.append) as producer,
    ):
        publisher = EventPublisher(producer, EventEncoder(registry, EVENT_TYPES), counter=counter)
        publishing = Publishing(publisher, stop, _this_machine() if machine else None)
        publishing.run(synthetic_events(profile, math.inf if seconds is None else seconds), at_once=at_once)
        producer.flush()
        failed = producer.counts.messages_failed
        show_table(("topic", "events"), sorted(publishing.counts.items()), as_json=as_json)  # after Ctrl-C too
    if failed:
        raise KafkaError(f"{counted(failed, 'event')} not sent: {failures[0].error}")


def _open_counter(tier: str, zk_connect: str, broker_list: str) -> AuditCounter:
    from kafka2011.audit.publishing import open_counter

    return open_counter(tier, zk_connect, producer={"broker.list": broker_list} if broker_list else None)


def _this_machine() -> Machine:
    from kafka2011.events.machine import Machine

    return Machine()


class Publishing:
    """Publishes events when they are due, those that are due together as one set."""

    def __init__(self, publisher: EventPublisher, stop: threading.Event, machine: Machine | None) -> None:
        self._publisher = publisher
        self._stop = stop
        self._machine = machine
        self._machine_due_s = 0.0
        self._is_behind = False
        self._together: dict[str, list[dict[str, Any]]] = {}
        self._waiting = 0
        self.counts: Counter[str] = Counter()

    def run(self, stream: Iterable[Generated], *, at_once: bool) -> None:
        """Publish all of the stream, or until it is to stop."""
        began_s = SYSTEM_CLOCK.monotonic_s()
        for at_s, topic, event in stream:
            early_s = 0.0 if at_once else at_s - (SYSTEM_CLOCK.monotonic_s() - began_s)
            if early_s < -_BEHIND_S and not self._is_behind:
                self._is_behind = True
                logger.warning("%.1f s behind schedule: events cannot be created or sent at this rate", -early_s)
            if early_s > 0 or self._waiting >= _MAX_TOGETHER:
                self._publish()
            while early_s > 0:
                self._stop.wait(max(early_s, _TICK_S) if early_s < 1 else 1)
                if self._stop.is_set():
                    return
                self._measure(SYSTEM_CLOCK.monotonic_s())
                early_s = at_s - (SYSTEM_CLOCK.monotonic_s() - began_s)
            if self._stop.is_set():
                return
            self._together.setdefault(topic, []).append(event)
            self._waiting += 1
        self._publish()

    def _publish(self) -> None:
        for topic, events in self._together.items():
            self._publisher.publish_all(topic, events)
            self.counts[topic] += len(events)
        self._together.clear()
        self._waiting = 0

    def _measure(self, now_s: float) -> None:
        if self._machine is not None and now_s >= self._machine_due_s:
            self._machine_due_s = now_s + _MACHINE_EVERY_S
            self._together.setdefault("server_stats", []).append(
                {"server": socket.gethostname(), **self._machine.stats()}
            )
