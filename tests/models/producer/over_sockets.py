"""One run with real threads, sockets and time. Its seed draws the same plan and faults again, not the same order."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import struct
import threading
import time
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

from kafka2011.producer import batch as batches
from tests.models.producer.plan import plan
from tests.models.producer.run import Run, World
from tests.models.producer.simulation import FailedRunError, no_defect_logged, with_constants
from tests.support.listener import Listener

if TYPE_CHECKING:
    from tests.models.producer.account import Account
    from tests.models.producer.faulty_broker import FaultyBroker
    from tests.models.producer.plan import Plan

_LINGER_NOT = struct.pack("ii", 1, 0)


def run_over_sockets(seed: int) -> None:
    """Run what a seed stands for. Raises FailedRunError where something did not hold."""
    random = Random(seed)
    drawn = _in_real_time(plan(random))
    is_over = threading.Event()
    with ExitStack() as stack:

        def new_door(broker: FaultyBroker) -> _Door:
            door = _Door(broker)
            stack.callback(door.close)
            return door

        world = World(
            random=random,
            threads=threading,
            is_over=is_over,
            sleep=is_over.wait,  # nobody sleeps on when it is over
            now_s=time.monotonic,
            thread_name=lambda: threading.current_thread().name,
            new_door=new_door,
            deadline_s=60.0,
            watch=lambda _lock, _check: None,
        )
        made = Run(drawn, world)
        stack.callback(is_over.set)
        stack.enter_context(_ends_noted(made.account))
        stack.enter_context(with_constants(drawn))
        stack.enter_context(no_defect_logged())
        try:
            made.run()
        except AssertionError as error:
            raise FailedRunError(f"seed {seed}: {error}\n{drawn}") from error


def _in_real_time(drawn: Plan) -> Plan:
    """Shorten what would take long, and promise nothing of times."""
    config = dataclasses.replace(
        drawn.config,
        confirm_timeout_ms=min(drawn.config.confirm_timeout_ms, 1500) if not drawn.is_calm else 60_000,
        socket_timeout_ms=min(drawn.config.socket_timeout_ms, 500) if not drawn.is_calm else 60_000,
    )
    return dataclasses.replace(
        drawn,
        config=config,
        longest_hang_s=min(drawn.longest_hang_s, 0.3),
        habits=drawn.habits._replace(longest_pause_s=0.02),
        is_timed=False,
    )


@contextlib.contextmanager
def _ends_noted(account: Account) -> Any:
    end, begin_done = batches.SendFuture.end, batches.DoneFuture.__init__

    def noted(self: batches.SendFuture, *outcome: Any) -> None:
        account.note_end(self)
        end(self, *outcome)

    def noted_done(self: batches.DoneFuture, receipt: batches.Receipt) -> None:
        begin_done(self, receipt)
        account.note_end(self)

    with (
        mock.patch.object(batches.SendFuture, "end", noted),
        mock.patch.object(batches.DoneFuture, "__init__", noted_done),
    ):
        yield


class _Door:
    """A broker's port."""

    def __init__(self, broker: FaultyBroker) -> None:
        self._broker = broker
        self._is_open = True
        self._listener = Listener(self._serve)

    @property
    def port(self) -> int:
        return self._listener.port

    def open(self) -> None:
        if not self._is_open:
            self._listener.start()
            self._is_open = True

    def shut(self) -> None:
        self._listener.refuse()
        self._is_open = False

    def move(self) -> None:
        self._listener.port = 0
        self._is_open = False
        self.open()

    def silence(self, *, silent: bool) -> None:
        """Refuse connections: a port of this machine cannot be silent."""
        if silent:
            self.shut()
        else:
            self.open()

    def _serve(self, accepted: socket.socket, _number: int) -> None:
        connection = _Accepted(accepted)
        self._broker.accept(connection)
        self._broker.serve(connection)

    def close(self) -> None:
        self._broker.die()
        self._listener.end_connections()
        self._listener.close()


class _Accepted:
    """The broker's end of a connection."""

    def __init__(self, accepted: socket.socket) -> None:
        self._accepted = accepted
        self.recv = accepted.recv
        self.sendall = accepted.sendall

    def close(self) -> None:
        """Leave it to the listener, which is about to."""

    def reset(self) -> None:
        with contextlib.suppress(OSError):
            self._accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            self._accepted.shutdown(socket.SHUT_RDWR)
