"""A replica that follows: asks its leader, appends what that has, flushes, and tells it so with what it asks next.

The rules are those of `kafka2011.replica.following`. The connection is the clients' one, in a thread: it knows TLS, and
ends each wait.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event
from gevent.lock import Semaphore

from kafka2011.broker.replication.leading import MAX_WAIT_MS
from kafka2011.errors import BrokerConnectionError, KafkaError, LogClosedError, ProtocolError
from kafka2011.log.log import LogFailedError
from kafka2011.outages import Outages
from kafka2011.replica.codec import WaitingFetch, decode_data, encode_fetch
from kafka2011.replica.exchange import WrongEpochError
from kafka2011.replica.followed_log import DamagedBytesError, LeaderLacksReadableError, OtherBytesError
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import decode_response
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from gevent.threadpool import ThreadPool

    from kafka2011.broker.replication.replica_log import ReplicaLogs
    from kafka2011.replica.exchange import ReplicaData
    from kafka2011.replica.following import Following
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_MS = 2000
ANSWER_TIMEOUT_MS = 10_000
"""How long an answer may take beside its wait: the leader may compare 64 MiB for it."""
RETRY_S = 0.2
REFUSED_RETRY_S = 2.0
OBSTACLE_RETRY_S = 5.0
"""How often it is looked whether a single partition can go on: the leader sends up to 8 MiB for that."""
MOST_ANSWER_BYTES = 2**31 - 1


class Follower:
    """Follows one leader in one epoch, in a greenlet of its own, from `start` to `end`.

    `on_failure` is told of an I/O error, after which the broker cannot go on. In `threads` it waits for its leader.
    """

    def __init__(
        self,
        following: Following,
        logs: ReplicaLogs,
        address: tuple[str, int],
        security: str,
        broker_id: int,
        on_failure: Callable[[BaseException], None],
        threads: ThreadPool,
    ) -> None:
        self.following = following
        self.obstacle: str | None = "has not heard from its leader yet"
        """Why it does not follow; None if it does."""
        self.trouble = ""
        """What an operator has to decide before it can follow; empty if nothing."""
        self._logs = logs
        self._broker_id = broker_id
        self._on_failure = on_failure
        self._threads = threads
        self._outages = Outages(logger)
        host, port = address
        self._connection = BrokerConnection(
            host,
            port,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            socket_timeout_ms=ANSWER_TIMEOUT_MS,
            max_frame_bytes=MOST_ANSWER_BYTES,
            security=security,
        )
        self._ended = Event()
        self._taking = Semaphore()
        self._is_following = False
        self._retry_s: dict[TopicPartition, float] = {}  # on the steady clock, of partitions that cannot go on

    def start(self) -> None:
        """Begin to follow."""
        gevent.spawn(self._run)

    def end(self) -> None:
        """Take nothing more of what the leader answers; returns when nothing of it is under way."""
        self._ended.set()
        with self._taking:
            self._logs.obstacles = {}

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._ended.wait(self._ask_guarded())
        except Exception as error:  # noqa: BLE001 - a background task that dies silently would be worse
            self._on_failure(error)
        finally:
            self._threads.spawn(self._connection.close)

    def _ask_guarded(self) -> float:
        """Ask once and return how long to pause."""
        role = self.following.role
        was_following, self._is_following = self._is_following, False
        try:
            self._ask()
        except (BrokerConnectionError, ProtocolError, WrongEpochError) as error:
            self.obstacle = f"does not reach its leader {role.leader}: {error}"
            self._outages.failed("replica %s %s", self.following.me, self.obstacle)
            return RETRY_S
        except LogFailedError:
            raise
        except (LeaderLacksReadableError, OtherBytesError) as error:
            self.obstacle = f"stays out: {error}"
            self.trouble = f"does not follow {role.leader}: {error}"
            self._outages.failed("replica %s %s", self.following.me, self.obstacle)
            return REFUSED_RETRY_S
        except KafkaError as error:
            self.obstacle = f"cannot follow {role.leader}: {error}"
            self._outages.failed("replica %s %s", self.following.me, self.obstacle)
            return REFUSED_RETRY_S
        if not was_following:
            logger.info("replica %s follows %s in epoch %d", self.following.me, role.leader, role.epoch)
        self._is_following = True
        self._outages.over()
        self._note_obstacles()
        return 0

    def _note_obstacles(self) -> None:
        """Say which partitions cannot go on, once each; one whose time has come is asked for again."""
        obstacles, now_s = self.following.obstacles(), SYSTEM_CLOCK.monotonic_s()
        for where in self._retry_s.keys() - obstacles.keys():
            del self._retry_s[where]
            self._outages.over(where)
        for where, error in obstacles.items():
            if where not in self._logs.obstacles:
                self._outages.failed("replica %s does not follow in %s: %s", self.following.me, where, error, of=where)
        self._logs.obstacles = obstacles
        due = [where for where in obstacles if now_s >= self._retry_s.setdefault(where, now_s + OBSTACLE_RETRY_S)]
        for where in due:
            self._retry_s[where] = now_s + OBSTACLE_RETRY_S
        self.following.retry(due)
        damage = [str(error) for error in obstacles.values() if isinstance(error, DamagedBytesError)]
        more = f", and in {len(damage) - 1} more partitions" if len(damage) > 1 else ""
        self.trouble = f"cannot copy all that {self.following.role.leader} has: {damage[0]}{more}" if damage else ""
        first = next(iter(obstacles.items()), None)
        self.obstacle = None if first is None else f"does not follow in {first[0]}: {first[1]}"

    def _ask(self) -> None:
        with self._taking:
            if self._ended.is_set():
                return
            frame = encode_fetch(WaitingFetch(self.following.fetch(), MAX_WAIT_MS))
        outcome = self._threads.spawn(self._exchange, frame).get()
        with self._taking:
            if self._ended.is_set():
                return
            if isinstance(outcome, KafkaError):
                raise outcome
            assert outcome is not None
            try:
                self.following.take(outcome)
            except LogClosedError:
                raise
            except KafkaError:
                self._logs.flush()  # what other partitions got
                raise
            self._logs.flush()

    def _exchange(self, frame: bytes) -> ReplicaData | KafkaError:
        """Ask, in a thread: what it raises is returned, since a pool prints what leaves it."""
        try:
            response = self._connection.request(frame)
            return decode_data(decode_response(response, "a replica fetch"), self._broker_id)
        except KafkaError as error:
            return error
