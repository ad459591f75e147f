"""Order across lost brokers: turns, queues and windows together, over simulated brokers, in any interleaving."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka2011.producer.broker_partition_info import ListedBrokers
from kafka2011.producer.broker_queue import BrokerQueue, Urgency
from kafka2011.producer.joining import join_parcels
from kafka2011.producer.parcel import Parcel, PartitionSet, Ticket
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.producer.router import Router
from kafka2011.producer.turns import Turns
from kafka2011.producer.window import Window
from zk.cluster import Broker, TopicPartition

BROKERS = 3
PARTITIONS = 2
TOPICS = ("t", "u")
TURN_MESSAGES = 6


class Info(ListedBrokers):
    def __init__(self) -> None:
        super().__init__(Broker(broker_id, "host", 1) for broker_id in range(BROKERS))

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition.all_of(topic, dict.fromkeys(range(BROKERS), PARTITIONS)))

    choices = partitions


class World:
    """A producer without threads, and brokers that handle what they were sent when they are told to."""

    def __init__(self, seed: int) -> None:
        self.router = Router(Info(), DefaultPartitioner(), 0)
        self.router._random.__self__.seed(seed)  # type: ignore[attr-defined]
        self.queues = {broker_id: BrokerQueue(2, 0, Urgency()) for broker_id in range(BROKERS)}
        self.turns = Turns(self.router, self.queues.__getitem__, TURN_MESSAGES)
        self.windows = {broker_id: Window(4, 10_000) for broker_id in range(BROKERS)}
        self.sockets: dict[int, list[PartitionSet]] = defaultdict(list)
        self.logs: dict[tuple[str, TopicPartition], list[int]] = defaultdict(list)
        self.ended: set[int] = set()
        self.lost_brokers: set[int] = set()
        self.sent = 0

    def send(self, topic: str, key: bytes | None) -> None:
        ticket = Ticket(topic, key, 1, 1)
        parcel = Parcel(ticket, TopicPartition("t", -1, -1), [b"%d" % self.sent], None, 1)
        self.sent += 1
        if key is None:
            self.turns.send(topic, [parcel])
        else:
            self.turns.before_key(topic)
            parcel.partition = self.router.choose(topic, key)
            self.queues[parcel.partition.broker_id].put([parcel])

    def step(self, broker_id: int) -> None:
        """Have a broker's sender take a batch and send what it may, or move what it has when the broker is down."""
        window = self.windows[broker_id]
        down = broker_id in self.router.down
        batch = self.queues[broker_id].take_all() if down and not window.empty else self.queues[broker_id].take(0)
        window.add(batch.moved)
        window.add(
            PartitionSet(joined.topic, joined.partition, joined.keyed, b"", joined.parcels)
            for joined in join_parcels(batch.parcels)
        )
        if down:
            self.turns.move(broker_id, window.remove)
            if self.lost_brokers == {broker_id}:  # after several losses it may have to, for the sake of order
                assert not window.remove(lambda each: not each.keyed), "what has no key waits for nobody"
        else:
            self.sockets[broker_id] += window.send()

    def handle(self, broker_id: int, sets: int = 1) -> None:
        """Have a broker append some of what it was sent."""
        for _ in range(min(sets, len(self.sockets[broker_id]))):
            handled = self.sockets[broker_id].pop(0)
            numbers = [int(payload) for parcel in handled.parcels for payload in parcel.payloads]
            self.logs[handled.topic, handled.partition] += numbers

    def answer(self, broker_id: int) -> None:
        """Have a broker append all it was sent, and prove it."""
        self.handle(broker_id, 1_000_000)
        window = self.windows[broker_id]
        if window.unconfirmed:
            window.ask()
            for confirmed in window.answered():
                self.ended.update(int(payload) for parcel in confirmed.parcels for payload in parcel.payloads)
                if not confirmed.keyed:
                    self.turns.done(confirmed.parcels)

    def go_down(self, broker_id: int) -> None:
        self.lose(broker_id)
        self.router.mark_down(broker_id)
        self.lost_brokers.add(broker_id)

    def come_up(self, broker_id: int) -> None:
        self.router.mark_up(broker_id)

    def lose(self, broker_id: int) -> None:
        """Lose a connection, and what the broker has not handled."""
        self.sockets[broker_id].clear()
        self.windows[broker_id].lost()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "step", "step", "handle", "answer", "lose", "go_down", "come_up"]),
        st.integers(0, BROKERS - 1),
    ),
    min_size=20,
    max_size=120,
)


@settings(max_examples=150)
@given(steps=STEPS, keyed_topic=st.booleans(), seed=st.integers(0, 1000))
def test_first_deliveries_are_in_sending_order(steps: list[tuple[str, int]], keyed_topic: bool, seed: int) -> None:
    """Whatever is lost, moved and repeated: each partition first sees a producer's messages in the order of sending.

    One topic is sent to without keys, the other with keys or without.
    """
    world = World(seed)
    for action, number in steps:
        if action == "send":
            topic = TOPICS[number % 2]
            world.send(topic, b"key-%d" % world.sent if keyed_topic and topic == "u" else None)
        else:
            getattr(world, action)(number)
    for number in range(BROKERS):
        world.router.mark_up(number)
    for _ in range(4 * len(steps) + 4):
        for number in range(BROKERS):
            world.step(number)
            world.answer(number)
    assert world.ended == set(range(world.sent)), "nothing is left behind"
    for where, numbers in world.logs.items():
        first = list(dict.fromkeys(numbers))
        assert first == sorted(first), f"out of order in {where}"
    assert {number for numbers in world.logs.values() for number in numbers} == world.ended
