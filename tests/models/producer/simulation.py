"""One run of the shipped producer on fibers: its threads, locks, sockets and clocks are all in memory."""

from __future__ import annotations

import concurrent.futures._base as futures
import logging
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from kafka2011 import connection
from kafka2011.producer import accumulator, completion, producer, router, sender
from kafka2011.producer import batch as batches
from kafka2011.producer import connection as producer_connection
from tests.models.producer.account import Account
from tests.models.producer.application import Application
from tests.models.producer.audit import Audit
from tests.models.producer.bounds import Bounds
from tests.models.producer.cluster import ClusterInTrouble, trouble
from tests.models.producer.faulty_broker import FaultyBroker
from tests.models.producer.fibers import Scheduler
from tests.models.producer.network_in_memory import SELECT, Network
from tests.models.producer.plan import plan
from tests.models.producer.threads_in_memory import queue_for, threading_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.producer.batch import Batch
    from kafka2011.producer.producer import Producer
    from tests.models.producer.network_in_memory import SocketInMemory
    from tests.models.producer.plan import Plan
    from zk.cluster import TopicPartition

_MODULES = {"accumulator": accumulator, "sender": sender}


class FailedRunError(AssertionError):
    """What a run found, and how to run it again."""


def simulate(seed: int) -> int:
    """Run what a seed stands for; return how many turns it took. Raises FailedRunError where something did not hold."""
    random = Random(seed)
    drawn = plan(random)
    scheduler = Scheduler(random, drawn.switch_probability)
    simulation = Simulation(drawn, scheduler)
    try:
        with in_memory(scheduler, simulation.network, drawn, simulation.account), no_defect_logged():
            scheduler.run(simulation.run)
    except Exception as error:
        raise FailedRunError(f"seed {seed}: {error}\n{drawn}") from error
    return scheduler.steps


def simulate_all(seeds: Iterable[int]) -> int:
    """Run what seeds stand for; return how many turns it took. Raises FailedRunError at the first that fails."""
    return sum(map(simulate, seeds))


class Simulation:
    """A cluster, a producer, and an application that uses it."""

    def __init__(self, drawn: Plan, scheduler: Scheduler) -> None:
        self._plan = drawn
        self._scheduler = scheduler
        self.network = Network(scheduler, drawn.buffer_bytes)
        self._brokers = [
            FaultyBroker(
                broker_id,
                scheduler.random,
                scheduler.sleep,
                partitions=drawn.habits.partitions,
                faults=drawn.faults,
                probability=drawn.fault_probability,
                longest_hang_s=drawn.longest_hang_s,
            )
            for broker_id in range(drawn.habits.brokers)
        ]
        self.account = Account({broker.broker_id: broker for broker in self._brokers}, scheduler.monotonic_s)

    def run(self) -> None:
        """Send, close, and compare."""
        drawn, scheduler, account = self._plan, self._scheduler, self.account
        doors = {broker.broker_id: _Door(self.network, scheduler, broker) for broker in self._brokers}
        cluster = ClusterInTrouble(self._brokers, doors, scheduler.pause, picks=drawn.picks)
        applications: list[Application] = []
        made = producer.Producer(
            drawn.config,
            info=cluster,
            on_failure=lambda failed: applications[0].on_failure(failed),  # noqa: PLW0108 (there is none yet)
        )
        self._look_into(made)
        applications += [
            Application(
                f"application {number}",
                made,
                account,
                drawn.habits,
                scheduler.random,
                scheduler.sleep,
                lambda: scheduler.current.name,
            )
            for number in range(drawn.applications)
        ]
        threads = threading_for(scheduler)
        is_over = threads.Event()
        others = [threads.Thread(each.run, name=f"application {number}") for number, each in enumerate(applications)]
        fate = partial(
            trouble,
            cluster,
            scheduler.random,
            scheduler.sleep,
            is_over.is_set,
            outages=drawn.outages,
            interval_s=drawn.outage_interval_s,
        )
        others.append(threads.Thread(fate, name="trouble"))
        for each in others:
            each.start()
        for each in others[:-1]:
            each.join()
        applications[0].close()
        is_over.set()
        self._check(made)

    def _look_into(self, made: Producer) -> None:
        inside = made._accumulator
        self._bounds = Bounds(inside, self._plan.config, self.account, self._plan.open_batches)
        guarded = partial(self._scheduler.guarded, self._bounds.check)
        inside.lock.on_release = guarded  # type: ignore[attr-defined]
        move = inside.move

        def noted(batch: Batch, where: TopicPartition) -> None:
            self.account.moved |= {batch} if batch.list_future is None else {batch, batch.list_future}
            move(batch, where)

        inside.move = noted  # type: ignore[method-assign]

    def _check(self, made: Producer) -> None:
        with made._accumulator.lock:
            self._bounds.check_empty()
        Audit(self.account, made.counts(), self._plan).check()
        left = [each.name for each in self._scheduler.fibers if "producer" in each.name and not each.is_done]
        assert not left, f"left behind: {left}"
        assert all(each.is_closed for each in self.network.clients), "a connection was left open"


class _Door:
    """A broker's port in memory."""

    def __init__(self, network: Network, scheduler: Scheduler, broker: FaultyBroker) -> None:
        self._network = network
        self._scheduler = scheduler
        self._broker = broker
        self._silent = False
        self.port = network.listen(self._accept)

    def open(self) -> None:
        self._network.listen(self._accept, self.port)

    def shut(self) -> None:
        self._network.refuse(self.port)

    def move(self) -> None:
        self.port = self._network.listen(self._accept)

    def silence(self, *, silent: bool) -> None:
        self._network.silence(self.port, silent=silent)

    def _accept(self, accepted: SocketInMemory) -> None:
        self._scheduler.spawn(f"broker {self._broker.broker_id}", lambda: self._broker.serve(accepted))


@contextmanager
def in_memory(scheduler: Scheduler, network: Network, drawn: Plan, account: Account) -> Iterator[None]:
    """Exchange what the producer's modules know of threads, sockets, clocks and chance."""
    threads = threading_for(scheduler)
    time = SimpleNamespace(monotonic=scheduler.monotonic_s, sleep=scheduler.sleep)
    sockets = network.socket_module()
    end = batches.SendFuture.end
    numbers: dict[str, int] = {"batch": 0}

    def noted_end(self: batches.SendFuture, *outcome: Any) -> None:
        scheduler.guarded(partial(account.note_end, self))
        scheduler.pause()
        end(self, *outcome)

    def number(self: batches.SendFuture) -> int:
        """Hash by number, not by address: sets are walked in the order of hashes."""
        found = self.__dict__.get("_number")
        if found is None:
            numbers["batch"] += 1
            found = self.__dict__["_number"] = numbers["batch"]
        return int(found)

    exchanged: list[tuple[Any, str, Any]] = [
        (futures, "threading", threading_for(scheduler, yields=False)),
        (accumulator, "threading", threads),
        (batches.SendFuture, "end", noted_end),
        (batches.SendFuture, "__hash__", number),
        (completion, "threading", threads),
        (completion, "queue", queue_for(scheduler)),
        (producer, "threading", threads),
        (producer, "SYSTEM_CLOCK", scheduler),
        (sender, "threading", threads),
        (sender, "time", time),
        (router, "random", scheduler.random),
        (connection, "threading", threads),
        (connection, "time", time),
        (connection, "socket", sockets),
        (connection, "select", SELECT),
        (connection, "os", SimpleNamespace(get_blocking=lambda _: True)),
        (producer_connection, "time", time),
        (producer_connection, "socket", sockets),
        (producer_connection, "select", SELECT),
    ]
    for name, value in drawn.constants.items():
        module, _, constant = name.partition(".")
        exchanged.append((_MODULES[module], constant, value))
    with ExitStack() as stack:
        for owner, name, value in exchanged:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


@contextmanager
def no_defect_logged() -> Iterator[None]:
    """Fail where an exception is logged that nobody expected, and keep all else from being formatted."""
    logged: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: logged.append(handler.format(record))  # type: ignore[method-assign]
    with ExitStack() as stack:
        for name in ("kafka2011", "concurrent.futures"):
            logger = logging.getLogger(name)
            stack.enter_context(mock.patch.multiple(logger, handlers=[handler], propagate=False))
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        yield
    assert not logged, logged[0]
