"""Begins and ends faults when their time has come, to whatever suffers them: a cluster, or the replicas of a broker."""

from __future__ import annotations

import errno
import heapq
import os
import time
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from integration.chaos.cluster import READY
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView

    from integration.chaos.broker import ChaosBroker
    from integration.chaos.gateway import ChaosGateway
    from integration.chaos.schedule import Fault
    from zk.child import ChildProcess

    Undo = Callable[[], object]
    Begin = Callable[[Fault], "Begun | None"]

NO_SPACE = os.strerror(errno.ENOSPC).encode()
_POLL_S = 0.2

now_s = SYSTEM_CLOCK.monotonic_s


class Pausable(Protocol):
    """A process that can be suspended."""

    @property
    def name(self) -> str: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T")
Named = TypeVar("Named", bound=_Named)
Server = TypeVar("Server", bound="ChaosBroker | ChaosGateway")


def chosen(pick: float, among: Sequence[T]) -> T:
    """Return what a pick from 0 to 1 stands for."""
    return among[min(int(pick * len(among)), len(among) - 1)]  # a pick that was rounded may be 1


class Begun(NamedTuple):
    """A fault that has begun: whom it concerns, by name, and what ends it."""

    whom: tuple[str, ...]
    undo: Undo


class Moment(NamedTuple):
    """A fault has begun, or has ended. Nobody was left who could suffer it if `begun` is None."""

    fault: Fault
    begun: Begun | None
    began_s: float
    is_over: bool


class Faults:
    """The faults of some kinds that some brokers may suffer, and those that gateways may.

    What suffers one already is left alone until that is over.
    """

    def __init__(
        self, kinds: Mapping[str, Begin], brokers: ValuesView[ChaosBroker], gateways: Sequence[ChaosGateway]
    ) -> None:
        self.kinds: dict[str, Begin] = {
            **kinds,
            "kill gateway": lambda fault: self.ended(self.choose_gateway(fault), lambda gateway: gateway.kill()),
            "pause gateway": lambda fault: self.paused(self.choose_gateway(fault)),
        }
        self.suffering: set[str] = set()
        self._brokers = brokers
        self._gateways = gateways
        self._begun: list[Begun] = []
        self._had_no_room: set[ChildProcess] = set()

    def begin(self, fault: Fault) -> Begun | None:
        """Begin a fault; None when there is nobody left who could suffer it."""
        begun = self.kinds[fault.kind](fault)
        if begun is not None:
            self.suffering.update(begun.whom)
            self._begun.append(begun)
        return begun

    def end(self, begun: Begun) -> None:
        """End what was begun."""
        begun.undo()
        self._begun.remove(begun)
        self.suffering.difference_update(begun.whom)

    def end_all(self) -> None:
        """End all that has begun and still lasts."""
        for begun in self._begun.copy():
            self.end(begun)

    def revive(self) -> Iterator[tuple[str, str, bool]]:
        """Start servers again that ended by themselves, as a supervisor would.

        Yields the name of each, its last line, and whether it had been ready: one that is started while ZooKeeper does
        not answer may give up. A process that found its disk full ends, perhaps only later, and is not named.
        """
        servers: list[ChaosBroker | ChaosGateway] = [*self._brokers, *self._gateways]
        for server in servers:
            if not server.running and server.name not in self.suffering:
                output = server.output()
                found_no_room = server.process in self._had_no_room and NO_SPACE in output
                server.launch()
                if not found_no_room:
                    yield server.name, output.decode(errors="replace").strip().rpartition("\n")[2], READY in output

    def live_through(self, faults: Sequence[Fault], started_s: float) -> Iterator[Moment | None]:
        """Begin and end faults when their time has come; yield each when it has, None while there is nothing to do."""
        order = count()
        due: list[tuple[float, int, Fault, Begun | None, float]] = [
            (fault.at_s, next(order), fault, None, 0.0) for fault in faults
        ]
        heapq.heapify(due)
        while due:
            wait_s = started_s + due[0][0] - now_s()
            if wait_s > 0:
                yield None
                time.sleep(min(wait_s, _POLL_S))
                continue
            _, _, fault, begun, began_s = heapq.heappop(due)
            if begun is not None:
                self.end(begun)
                yield Moment(fault, begun, began_s, is_over=True)
                continue
            began_s = now_s()
            begun = self.begin(fault)
            if begun is not None:
                heapq.heappush(due, (now_s() - started_s + fault.lasts_s, next(order), fault, begun, began_s))
            yield Moment(fault, begun, began_s, is_over=False)

    def able(self, among: Iterable[Named]) -> list[Named]:
        """Return those who suffer nothing."""
        return [process for process in among if process.name not in self.suffering]

    def choose_gateway(self, fault: Fault) -> ChaosGateway | None:
        """Return one of the gateways that run unharmed; None if there is none."""
        able = [gateway for gateway in self.able(self._gateways) if gateway.running]
        return chosen(fault.pick, able) if able else None

    # What several kinds do ---------------------------------------------------------------------------------------

    def ended(self, server: Server | None, end: Callable[[Server], object]) -> Begun | None:
        """End a server, which is started again when that is over."""
        if server is None:
            return None
        end(server)
        return Begun((server.name,), server.launch)

    def paused(self, process: Pausable | None) -> Begun | None:
        """Suspend a process."""
        if process is None:
            return None
        process.pause()
        return Begun((process.name,), process.resume)

    def filled(self, brokers: Iterable[ChaosBroker]) -> Begun | None:
        """Fill the disk of the first broker that has one of its own."""
        for broker in self.able(brokers):
            if broker.running and broker.fill_disk():
                self._had_no_room.add(broker.process)
                return Begun((broker.name,), broker.empty_disk)  # it ends, if something is written to it meanwhile
        return None
