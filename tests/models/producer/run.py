"""One run: a cluster in trouble, a producer, and an application that uses it, in memory or over sockets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.producer.producer import Producer
from tests.models.producer.account import Account
from tests.models.producer.application import Application
from tests.models.producer.audit import Audit
from tests.models.producer.bounds import Bounds
from tests.models.producer.cluster import ClusterInTrouble, trouble
from tests.models.producer.faulty_broker import FaultyBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from kafka2011.producer.batch import Batch
    from tests.models.producer.cluster import Door
    from tests.models.producer.plan import Plan
    from zk.cluster import TopicPartition


class World(NamedTuple):
    """What a run takes place in."""

    random: Random
    threads: Any  # as the module `threading`
    is_over: Any  # an event
    sleep: Callable[[float], object]
    now_s: Callable[[], float]
    thread_name: Callable[[], str]
    new_door: Callable[[FaultyBroker], Door]
    deadline_s: float  # by which its threads end
    watch: Callable[[Any, Callable[[], object]], object]  # has something called whenever a lock is released


class Run:
    """A cluster, a producer, and an application that uses it."""

    def __init__(self, drawn: Plan, world: World) -> None:
        self._plan = drawn
        self._world = world
        habits = drawn.habits
        brokers = [
            FaultyBroker(
                broker_id,
                world.random,
                world.sleep,
                partitions=habits.partitions,
                faults=drawn.faults,
                probability=drawn.fault_probability,
                longest_hang_s=drawn.longest_hang_s,
            )
            for broker_id in range(habits.brokers)
        ]
        self._brokers = {broker.broker_id: broker for broker in brokers}
        self.account = Account(self._brokers, world.now_s)

    def run(self) -> None:
        """Send, close, and check what must hold."""
        drawn, world = self._plan, self._world
        doors = {broker_id: world.new_door(broker) for broker_id, broker in self._brokers.items()}
        cluster = ClusterInTrouble(self._brokers, doors, lambda: world.sleep(0), picks=drawn.picks)
        applications: list[Application] = []
        producer = Producer(
            drawn.config,
            info=cluster,
            on_failure=lambda failed: applications[0].on_failure(failed),  # noqa: PLW0108 (there is none yet)
        )
        bounds = Bounds(producer._accumulator, drawn.config, self.account, drawn.open_batches)
        world.watch(producer._accumulator.lock, bounds.check)
        self._note_moves(producer)
        applications += [
            Application(
                f"application {number}",
                producer,
                self.account,
                drawn.habits,
                world.random,
                world.sleep,
                world.thread_name,
            )
            for number in range(drawn.applications)
        ]
        fate = partial(trouble, cluster, world.random, world.sleep, world.is_over.is_set)
        threads = [world.threads.Thread(target=each.run, name=each.name, daemon=True) for each in applications]
        threads.append(
            world.threads.Thread(
                target=partial(fate, outages=drawn.outages, interval_s=drawn.outage_interval_s),
                name="trouble",
                daemon=True,
            )
        )
        for each in threads:
            each.start()
        for each in threads[:-1]:
            each.join(world.deadline_s)
            assert not each.is_alive(), f"{each.name} does not come to an end"
        applications[0].close()
        world.is_over.set()
        threads[-1].join(world.deadline_s)
        with producer._accumulator.lock:
            bounds.check_empty()
        Audit(self.account, producer.counts(), drawn).check()

    def _note_moves(self, producer: Producer) -> None:
        inside = producer._accumulator
        move = inside.move

        def noted(batch: Batch, where: TopicPartition) -> None:
            self.account.moved |= {batch} if batch.list_future is None else {batch, batch.list_future}
            move(batch, where)

        inside.move = noted  # type: ignore[method-assign]
