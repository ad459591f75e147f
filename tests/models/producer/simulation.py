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

from kafka2011.producer import (
    accumulator,
    appending,
    completion,
    confirmation_window,
    producer,
    producer_connection,
    router,
    sender,
)
from kafka2011.producer import batch as batches
from kafka2011.wire import connection, sockets
from tests.models.producer.fibers import Scheduler
from tests.models.producer.network_in_memory import SELECT, Network
from tests.models.producer.plan import plan
from tests.models.producer.run import Run, World
from tests.models.producer.threads_in_memory import queue_for, threading_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.models.producer.account import Account
    from tests.models.producer.faulty_broker import FaultyBroker
    from tests.models.producer.network_in_memory import SocketInMemory
    from tests.models.producer.plan import Plan

_MODULES = {"accumulator": accumulator, "sender": sender, "confirmation_window": confirmation_window}


class FailedRunError(AssertionError):
    """What a run found, and how to run it again."""


def simulate(seed: int) -> int:
    """Run what a seed stands for; return how many turns it took. Raises FailedRunError where something did not hold."""
    random = Random(seed)
    drawn = plan(random)
    scheduler = Scheduler(random, drawn.switch_probability)
    network = Network(scheduler, drawn.buffer_bytes)
    threads = threading_for(scheduler)

    def watch(lock: Any, check: Callable[[], object]) -> None:
        lock.on_release = partial(scheduler.guarded, check)

    world = World(
        random=random,
        threads=threads,
        is_over=threads.Event(),
        sleep=scheduler.sleep,
        now_s=scheduler.monotonic_s,
        thread_name=lambda: scheduler.current.name,
        new_door=lambda broker: _Door(network, scheduler, broker),
        deadline_s=3600.0,
        watch=watch,
    )
    run = Run(drawn, world)

    def run_and_look_behind() -> None:
        run.run()
        left = [each.name for each in scheduler.fibers if "producer" in each.name and not each.is_done]
        assert not left, f"left behind: {left}"
        assert all(each.is_closed for each in network.clients), "a connection was left open"

    try:
        with in_memory(scheduler, network, drawn, run.account), no_defect_logged():
            scheduler.run(run_and_look_behind)
    except Exception as error:
        raise FailedRunError(f"seed {seed}: {error}\n{drawn}") from error
    return scheduler.steps


def simulate_all(seeds: Iterable[int]) -> int:
    """Run what seeds stand for; return how many turns it took. Raises FailedRunError at the first that fails."""
    return sum(map(simulate, seeds))


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
        self._broker.accept(accepted)
        self._scheduler.spawn(f"broker {self._broker.broker_id}", lambda: self._broker.serve(accepted))


@contextmanager
def in_memory(scheduler: Scheduler, network: Network, drawn: Plan, account: Account) -> Iterator[None]:
    """Exchange what the producer's modules know of threads, sockets, clocks and chance."""
    threads = threading_for(scheduler)
    time = SimpleNamespace(monotonic=scheduler.monotonic_s, sleep=scheduler.sleep)
    end, begin_done = batches.SendFuture.end, batches.DoneFuture.__init__
    numbers: dict[str, int] = {"batch": 0}

    def noted_end(self: batches.SendFuture, *outcome: Any) -> None:
        account.note_end(self)
        scheduler.pause()
        end(self, *outcome)

    def noted_done(self: batches.DoneFuture, receipt: batches.Receipt) -> None:
        begin_done(self, receipt)
        account.note_end(self)

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
        (appending, "compiled", None),  # which takes no lock, so that nobody else would have a turn
        (batches.SendFuture, "end", noted_end),
        (batches.DoneFuture, "__init__", noted_done),
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
        (connection, "connected_socket", network.connected_socket),
        (sockets, "select", SELECT),
        (sockets, "time", time),
        (connection, "os", SimpleNamespace(get_blocking=lambda _: True)),
        (connection, "compiled", None),
        (producer_connection, "time", time),
    ]
    with ExitStack() as stack:
        stack.enter_context(with_constants(drawn))
        for owner, name, value in exchanged:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


@contextmanager
def with_constants(drawn: Plan) -> Iterator[None]:
    """Exchange the limits of the producer's modules."""
    with ExitStack() as stack:
        for name, value in drawn.constants.items():
            module, _, constant = name.partition(".")
            stack.enter_context(mock.patch.object(_MODULES[module], constant, value))
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
