"""Keeps a broker and its topics registered in ZooKeeper, through session expiry and new topics (paper, section 3.2)."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import gevent
from gevent.event import Event
from kazoo.handlers.gevent import SequentialGeventHandler

from kafka2011.errors import KafkaError
from zk.broker_clocks import BrokerClock, BrokerClockRegistry
from zk.broker_settings import BrokerSettingsRegistry
from zk.brokers import BrokerRegistry
from zk.clock import SYSTEM_CLOCK
from zk.connecting import connect
from zk.errors import NodeHeld, ZkError, ZkUnavailable
from zk.partition_counts import PartitionCountRegistry
from zk.requests import RequestRegistry
from zk.sessions import SessionEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zk.client import ZkClient
    from zk.cluster import Broker, TlsListener
    from zk.connecting import SessionSettings
    from zk.nodes import Check
    from zk.requests import PlacedRequest

logger = logging.getLogger(__name__)

OLD_NODE_GRACE_MS = 5000
"""On top of the session timeout, for ZooKeeper to notice that a broker of our id has gone."""
TOPICS_AT_ONCE = 500
"""How many topics are registered together: with thousands, the round trips would take longer than the work."""
RETRY_S = 1.0
ADDRESS_GAP_S = 1.5
"""How long a broker with a new address leaves its node absent, so that others see that the old one has gone."""


class LeaderSession(NamedTuple):
    """The session in which a replica leads: it registers in that alone, and ends it itself.

    `check` returns what must be so when the broker's node is made.
    """

    client: ZkClient
    session_id: int
    check: Callable[[], Check]


class Details(NamedTuple):
    """The facts that a broker publishes beside its address: where it listens over TLS, and its settings."""

    tls: TlsListener | None = None
    settings: Mapping[str, str] | None = None


class BrokerRegistrar:
    """Registers a broker, then every topic on its disk, and later each topic when its first log appears.

    `topics` returns each topic with its number of partitions, and `exact_counts` those that were created with an exact
    number. `on_failure` is called when the registration is lost for good: another process holds our id. `join_topic`,
    if given, is called for every topic that others register and we do not have, but for those with an exact number; it
    makes the topic here. `carry_out`, if given, does what operators ask for, or says why not by a KafkaError. A replica
    that leads has a session already, `led`.
    """

    def __init__(
        self,
        session: SessionSettings,
        broker: Broker,
        topics: Callable[[], Mapping[str, int]],
        *,
        on_failure: Callable[[BaseException], None],
        join_topic: Callable[[str], object] | None = None,
        exact_counts: Callable[[], Mapping[str, int]] = dict,
        carry_out: Callable[[str, PlacedRequest], object] | None = None,
        details: Details | None = None,
        led: LeaderSession | None = None,
    ) -> None:
        self._details = details or Details()
        self._led = led
        self._join_topic = join_topic
        self._exact_counts = exact_counts
        self._carry_out = carry_out
        self._not_joined: set[str] = set()
        self._zk_connect = session.zk_connect
        self._broker = broker
        self._topics = topics
        self._session_timeout_ms = session.session_timeout_ms
        self._connection_timeout_ms = session.connection_timeout_ms
        self._wait_ms = session.session_timeout_ms + OLD_NODE_GRACE_MS
        self._on_failure = on_failure
        self._client: ZkClient | None = None
        self._loop: gevent.Greenlet[[], None] | None = None
        self._wake = Event()
        self._registered: dict[str, int] = {}
        self._added: dict[str, int] = {}  # since they were all compared with what is registered
        self._is_complete = False  # nothing but what was added is missing
        self._session_id: int | None = None
        self.sessions = 0
        self._has_session_changed = False

    def start(self) -> None:
        """Connect and register; returns when the broker and all its topics are in ZooKeeper.

        Raises NodeHeld when a node of our id lives on, and ZkError when ZooKeeper does not answer, or goes away and
        does not come back within the connection timeout.
        """
        if self._loop is not None:
            return
        if self._led is None:
            self._client = connect(
                self._zk_connect, self._session_timeout_ms, self._connection_timeout_ms, SequentialGeventHandler()
            )
            session_id = None
        else:
            self._client, session_id = self._led.client, self._led.session_id
        self._registry = BrokerRegistry(self._client, as_registered=True, session_id=session_id)
        self._publisher = BrokerSettingsRegistry(self._client, session_id)
        self._requests = RequestRegistry(self._client)
        self._counts = PartitionCountRegistry(self._client)
        self._events = SessionEvents(self._client)
        self._events.wake(self._session_changed)
        deadline_s = SYSTEM_CLOCK.monotonic_s() + self._connection_timeout_ms / 1000
        while (obstacle := self._try_to_register(self._events.session_id)) is not None:
            if SYSTEM_CLOCK.monotonic_s() >= deadline_s:
                raise obstacle
            self._wait_after(obstacle)
        self._loop = gevent.spawn(self._run)

    @property
    def is_connected(self) -> bool:
        """Whether there is a session, and a connection for it."""
        return self._client is not None and self._client.session_id is not None

    @property
    def is_registered(self) -> bool:
        """Whether the broker, as far as is known, is registered in the session that there is now."""
        return self.is_connected and self._events.session_id == self._session_id

    @property
    def reconnects(self) -> int:
        """How often the connection to ZooKeeper was lost and there was one again."""
        return 0 if self._client is None else self._events.reconnects

    def note_clock(self, wall_ms: float, obstacle: str) -> int:
        """Note this broker's clock in ZooKeeper, and return what ZooKeeper's clock says, in ms since the epoch.

        `obstacle` says why retention does not go by the broker's. Raises ZkError.
        """
        client = self._client
        if client is None:
            raise ZkUnavailable("the session has ended")
        session_id = None if self._led is None else self._led.session_id
        return BrokerClockRegistry(client, session_id).note(self._broker.id, BrokerClock(int(wall_ms), obstacle))

    def topic_added(self, topic: str, partitions: int) -> None:
        """Have a new topic registered soon; never waits."""
        self._added[topic] = partitions
        self._wake.set()

    def stop(self) -> None:
        """End the session, and with it the registration, within the session timeout; may be called twice.

        The session of a replica that leads is left to it.
        """
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.kill()
        client, self._client = self._client, None
        if client is None:
            return
        self._events.close()
        if self._led is not None:
            return
        # One step for ZooKeeper, however many topics there are. In a greenlet, because it may be out of reach.
        leaving = gevent.spawn(client.shutdown)
        leaving.join(self._session_timeout_ms / 1000)
        if not leaving.ready():
            logger.warning("ZooKeeper at %s did not answer: the registration ends with its session", self._zk_connect)
            leaving.kill(block=False)

    def _run(self) -> None:
        """Register what is missing whenever the session is a new one or a topic was added."""
        while True:
            self._wake.clear()  # before looking, so that a change after the look wakes us again
            session_id = self._events.session_id
            try:
                obstacle = None if session_id is None else self._try_to_register(session_id)
            except ZkError as error:
                self._on_failure(error)
                return
            if obstacle is None:
                self._wake.wait()
            else:
                self._wait_after(obstacle)

    def _try_to_register(self, session_id: int | None) -> ZkError | None:
        """Register what is missing, and return what was in the way if that may pass: ZooKeeper was out of reach.

        Our old node is such an obstacle too if ZooKeeper was away meanwhile: a new leader restarts all session
        timeouts.
        """
        self._has_session_changed = False
        try:
            self._register_missing(session_id)
        except ZkUnavailable as error:
            return error
        except NodeHeld as error:
            if not self._has_session_changed:
                raise
            return error
        return None

    def _wait_after(self, obstacle: ZkError) -> None:
        logger.warning("broker %d is not registered for now: %s", self._broker.id, obstacle)
        gevent.sleep(RETRY_S)

    def _session_changed(self) -> None:
        self._has_session_changed = True
        self._wake.set()

    def _register_missing(self, session_id: int | None) -> None:
        if session_id is None or session_id != self._session_id:
            if None not in (session_id, self._session_id):
                logger.warning("broker %d has a new ZooKeeper session: registering again", self._broker.id)
            logger.info(
                "registering broker %d at %s; an old znode of this id may last %d ms",
                *(self._broker.id, self._zk_connect, self._wait_ms),
            )
            self._registered.clear()
            self._is_complete = False
            deadline_s = SYSTEM_CLOCK.monotonic_s() + self._wait_ms / 1000
            self._let_old_address_vanish(deadline_s)
            is_published = self._publish_settings(deadline_s)
            rest_s = max(deadline_s - SYSTEM_CLOCK.monotonic_s(), 0)
            check = None if self._led is None else self._led.check()
            self._registry.register(self._broker, int(rest_s * 1000), self._details.tls, check)
            if not is_published:  # the other one has gone just now
                self._publish_settings(deadline_s)
            self._session_id = session_id
            self.sessions += 1
            if self._carry_out is not None:
                self._requests.announce(self._broker)
                self._counts.keep_only(self._broker.id, self._exact_counts().keys() & self._topics().keys())
        if self._carry_out_requests():
            self._is_complete = False
        self._join_topics()
        self._register_topics()

    def _publish_settings(self, deadline_s: float) -> bool:
        """Publish the settings; False if another process does so, which then has this broker's id."""
        if self._details.settings is not None:
            rest_s = max(deadline_s - SYSTEM_CLOCK.monotonic_s(), 0)
            try:
                self._publisher.publish(self._broker.id, self._details.settings, int(rest_s * 1000))
            except NodeHeld:
                return False
        return True

    def _register_topics(self) -> None:
        """Register what is missing: of very many topics one new one is not looked for among all of them."""
        added, self._added = self._added, {}
        wanted = added if self._is_complete else self._topics()
        self._is_complete = False
        missing = iter([topic for topic in wanted.items() if topic not in self._registered.items()])
        while together := dict(islice(missing, TOPICS_AT_ONCE)):
            self._register_together(together)
        self._is_complete = True

    def _register_together(self, topics: Mapping[str, int]) -> None:
        """Register topics, after their exact numbers: whoever sees such a topic must see that it keeps its number."""
        exact = self._exact_counts()
        self._counts.note(self._broker.id, {topic: exact[topic] for topic in topics if topic in exact})
        self._registry.register_topics(self._broker.id, topics, self._wait_ms)
        self._registered.update(topics)

    def _carry_out_requests(self) -> bool:
        """Do what operators ask for, and say whether there was anything.

        A request goes last, so that it is done again if we end meanwhile.
        """
        if self._carry_out is None:
            return False
        is_any = False
        own = self._broker.id
        for topic, placed in self._requests.placed(own, self._watch).items():
            if placed.request is None:
                continue
            is_any = True
            logger.info("broker %d is requested to %s", own, placed.request.of(topic))
            if placed.request.deletes:
                self._registry.unregister_topic(own, topic)
                self._registered.pop(topic, None)
                self._not_joined.add(topic)  # others may have it for a moment longer
            try:
                self._carry_out(topic, placed)
            except ZkUnavailable:  # it is left to the next session, perhaps that of another replica
                raise
            except KafkaError as error:
                logger.warning("broker %d cannot %s: %s", own, placed.request.of(topic), error)
                self._requests.refuse(own, topic, placed.version, str(error))
                continue
            partitions = self._topics().get(topic)
            if partitions is None:
                self._counts.forget(own, topic)
            elif topic in self._registered:
                self._counts.note(own, {topic: partitions} if topic in self._exact_counts() else {})
                self._registry.change_topic(own, topic, partitions)
                self._registered[topic] = partitions
            else:  # so that whoever finds the request gone finds the topic
                self._register_together({topic: partitions})
            self._requests.done(own, topic, placed.version)
        return is_any

    def _let_old_address_vanish(self, deadline_s: float) -> None:
        """Wait until nobody can miss that a node of our id with another address has gone.

        Producers of 0.7.2 compare the ids of before and after. If the new node is there before they have looked, they
        keep the old address for good.
        """
        changed = Event()
        old: Broker | None = None
        while SYSTEM_CLOCK.monotonic_s() < deadline_s:
            changed.clear()
            try:
                registered = self._registry.brokers(lambda _event: changed.set()).get(self._broker.id)
            except ZkUnavailable:
                gevent.sleep(RETRY_S)
                continue
            if registered is None or (registered.host, registered.port) == (self._broker.host, self._broker.port):
                break
            old = registered
            changed.wait(RETRY_S)  # a watch can be lost with its connection
        if old is not None:
            logger.info("broker %d was at %s:%d: waiting before it registers again", old.id, old.host, old.port)
            gevent.sleep(ADDRESS_GAP_S)

    def _join_topics(self) -> None:
        """Make the topics here that live on other brokers; the watch calls again when there are new ones."""
        if self._join_topic is None:
            return
        there = self._registry.topics(self._watch)
        self._not_joined.intersection_update(there)
        known = {*self._topics(), *self._not_joined}
        exact = self._counts.counts_of_many(topic for topic in there if topic not in known)
        for topic, counts in exact.items():
            if counts:
                continue
            try:
                self._join_topic(topic)
            except KafkaError as error:
                self._not_joined.add(topic)
                logger.warning("broker %d cannot join topic %r: %s", self._broker.id, topic, error)

    def _watch(self, _event: object) -> None:
        self._wake.set()
