"""What the gateway knows of the cluster, kept current by watches: brokers, topics, and each topic's list of partitions.

Metadata is answered from it, without a question to ZooKeeper.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event
from gevent.lock import RLock

from kafka2011.gateway.partition_lists import wanted_list
from zk.broker_settings import BrokerSettingsRegistry
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.errors import NodeExists, NoNode, VersionConflict, ZkError
from zk.gateways import GatewayRegistry
from zk.known_nodes import KnownTopic
from zk.number_floors import NumberFloors
from zk.sessions import SessionEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka2011.gateway.cache_files import ListsCache
    from zk.client import ZkClient
    from zk.cluster import Broker
    from zk.gateways import GatewayAddress, PartitionList

logger = logging.getLogger(__name__)

RETRY_S = 0.5
LOOK_S = 10.0
"""How often everything is read again without a watch: one can be lost with its connection."""
_TRIES = 5


class Catalogue:
    """Brokers, claims of gateways and topics as they were read last. `on_change` is called after each reading.

    While ZooKeeper is away, everything stays as it was. A topic that nobody has registered is not shown, but its list
    is kept: it may only be registered later.
    """

    def __init__(self, client: ZkClient, file: ListsCache, on_change: Callable[[], object]) -> None:
        self._file = file
        self._brokers_registry = BrokerRegistry(client)
        self._settings_registry = BrokerSettingsRegistry(client)
        self.registry = GatewayRegistry(client)
        self._on_change = on_change
        self.brokers: dict[int, Broker] = {}
        self.settings: dict[int, dict[str, str]] = {}  # of brokers that publish them, texts by name
        self.claims: dict[int, GatewayAddress] = {}
        self.lists: dict[str, PartitionList] = {}
        self._topics: dict[bytes, str] = {}  # by the ids that clients know
        # Also of topics that are not registered now:
        self._kept, self._floors = file.load()
        self._list_watches: dict[str, Callable[[object], object]] = {}
        self._changed_lists: set[str] = set()
        self.counts: dict[str, Mapping[int, int]] = {}
        self.hidden: set[str] = set()
        """Topics that this gateway is creating: clients shall not see them with a part of their partitions."""
        self.cluster_id = ""
        self._known: dict[str, KnownTopic] = {}
        self._changed = Event()
        self._reading = RLock()
        self._events = SessionEvents(client)
        self._session_id: int | None = None
        self._follower: gevent.Greenlet[..., None] | None = None

    def start(self) -> None:
        """Read everything, and follow it from now on. Raises ZkError."""
        self.registry.ensure_parents()
        self._brokers_registry.ensure_parents()
        self.cluster_id = self.registry.cluster_id()
        self.read()
        self._events.wake(self._changed.set)
        self._follower = gevent.spawn(self._follow)

    def stop(self) -> None:
        """Follow no more."""
        self._events.close()
        if self._follower is not None:
            self._follower.kill()

    @property
    def is_connected(self) -> bool:
        """Whether there is a session in ZooKeeper now."""
        return self._events.session_id is not None

    def partition(self, topic: str, number: int) -> TopicPartition | None:
        """Return which partition a number of today's clients stands for; None if there is none."""
        known = self.lists.get(topic)
        return known.partitions[number] if known is not None and 0 <= number < len(known.partitions) else None

    def topic_of(self, topic_id: bytes) -> str | None:
        """Return the topic that has an id now; None for one that does not exist or no longer."""
        topic = self._topics.get(topic_id)
        known = None if topic is None else self.lists.get(topic)
        if known is None or known.topic_id.bytes != topic_id:
            self._topics = {known.topic_id.bytes: name for name, known in self.lists.items()}
            topic = self._topics.get(topic_id)
        return topic

    def floors(self, topic: str) -> NumberFloors:
        """Return the numbers above which a new log of a topic goes on, and the topic id in its wrappers."""
        return self._floors.get(topic, NumberFloors())

    def raise_floor(self, topic: str, partition: int, number: int) -> None:
        """Note that a log of a topic that was deleted had numbers below this one."""
        self._floors[topic] = self.floors(topic).raised(NumberFloors((*[0] * partition, number)))

    def is_live(self, where: TopicPartition) -> bool:
        """Say whether a partition's broker is there, and has registered it."""
        counts = self.counts.get(where.topic, {})
        return where.broker_id in self.brokers and where.partition < counts.get(where.broker_id, 0)

    def read(self) -> None:
        """Read what has changed, and give new partitions their numbers. Raises ZkError."""
        with self._reading:
            self._changed.clear()
            session_id = self._events.session_id
            is_new_session = session_id != self._session_id
            if is_new_session:  # watches went with the old one
                for known in self._known.values():
                    known.forget_all()
            self.brokers = self._brokers_registry.brokers(self._note)
            self.settings = self._settings_registry.settings()  # which brokers publish before they register
            self.claims = self.registry.claims(self._note)
            changed_lists = {self._changed_lists.pop() for _ in range(len(self._changed_lists))}
            names = [topic for topic in self._brokers_registry.topics(self._note) if topic not in self.hidden]
            for gone in self.lists.keys() - set(names):  # deleted, or not registered again yet
                del self.lists[gone]
                self._known.pop(gone, None)
                self.counts.pop(gone, None)
                self._list_watches.pop(gone, None)
            every = [self._known.setdefault(name, KnownTopic(name, self._changed.set)) for name in names]
            self._brokers_registry.follow(every)
            changed = []
            for known in every:
                counts = self._brokers_registry.counts_of(known)
                is_listed = known.topic in self.lists and known.topic not in changed_lists
                if is_new_session or counts != self.counts.get(known.topic) or not is_listed:
                    changed.append(known.topic)
                self.counts[known.topic] = counts
            self._list(changed)
            self._session_id = session_id
        self._on_change()

    def _follow(self) -> None:
        while True:
            self._changed.wait(LOOK_S)
            try:
                self.read()
            except ZkError as error:
                logger.warning("the cluster cannot be read, and stays as it was for now: %s", error)
                gevent.sleep(RETRY_S)
                self._changed.set()
            except Exception:  # whoever followed would never hear of a broker again
                logger.exception("the cluster cannot be read")

    def _list(self, topics: list[str]) -> None:
        """Give a number to new partitions, and repair lists that ZooKeeper has in an older state."""
        for _ in range(_TRIES):
            stored = self.registry.lists(topics, self._watch_of_list)
            floors = self.registry.floors.floors(topics)  # read after the lists: a deletion writes both in one step
            unread: list[str] = []
            for topic in topics:
                known = stored.get(topic)
                if topic in stored and known is None:  # it cannot be read: nobody may guess
                    continue
                present = TopicPartition.all_of(topic, self.counts[topic])
                wanted = wanted_list(topic, self._kept.get(topic), known, present)
                try:
                    if wanted.partitions and (known is None or wanted != known):
                        wanted = self.registry.store_list(wanted)
                        unread.append(topic)  # for a watch
                except (NodeExists, VersionConflict, NoNode) as error:
                    logger.info("topic %s: another gateway has changed its list: %s", topic, error)
                    unread.append(topic)
                else:
                    self._raise_floors(topic, floors[topic])
                    self.lists[topic] = self._kept[topic] = wanted
            topics = unread
            if not topics:
                break
        self._changed_lists.update(topics)
        self._file.store(self._kept, self._floors)

    def _raise_floors(self, topic: str, stored: NumberFloors) -> None:
        """Take the higher of the stored floors and those that this gateway has kept."""
        floors = stored.raised(self.floors(topic))
        if not stored.covers(floors):
            self.registry.floors.raise_to(topic, floors)
        if floors != NumberFloors():
            self._floors[topic] = floors

    def _watch_of_list(self, topic: str) -> Callable[[object], object]:
        return self._list_watches.setdefault(topic, partial(self._note_list, topic))

    def _note_list(self, topic: str, event: object) -> None:
        self._changed_lists.add(topic)
        self._note(event)

    def _note(self, _event: object) -> None:
        self._changed.set()
