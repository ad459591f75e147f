"""A replica that follows: asks its leader, appends what that has, flushes, and tells it so with what it asks next.

The rules are those of `kafka2011.replica.following`. The connection is the clients' one, in a thread: it knows TLS, and
ends each wait.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event
from gevent.lock import Semaphore

from kafka2011.broker.replication.leading import MAX_WAIT_MS
from kafka2011.errors import BrokerConnectionError, KafkaError, LogClosedError, ProtocolError
from kafka2011.log.log import LogFailedError
from kafka2011.outages import Outages
from kafka2011.replica.codec import WaitingFetch, decode_data, encode_fetch
from kafka2011.replica.exchange import ReplicaData, WrongEpochError
from kafka2011.replica.followed_log import (
    DamagedBytesError,
    DoubtfulCutError,
    LeaderLacksReadableError,
    OtherBytesError,
)
from kafka2011.replica.segments import (
    Asker,
    DamageAsk,
    DamageGiven,
    DamageState,
    decode_damage,
    encode_segment_ask,
)
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import decode_response
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from gevent.threadpool import ThreadPool

    from kafka2011.broker.replication.replica_log import ReplicaLogs
    from kafka2011.errors import LogError
    from kafka2011.message.header import AnyBytes
    from kafka2011.replica.following import Following
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_MS = 2000
ANSWER_TIMEOUT_MS = 10_000
"""How long an answer may take beside its wait: the leader may compare 64 MiB for it."""
RETRY_S = 0.2
REFUSED_RETRY_S = 2.0
MENDING_RETRY_S = 0.5
"""How often a leader that repairs its damage is asked whether it is done."""
OBSTACLE_RETRY_S = 5.0
"""How often it is looked whether a single partition can go on: the leader sends up to 8 MiB for that."""
MOST_ANSWER_BYTES = 2**31 - 1


class Follower:
    """Follows one leader in one epoch, in a greenlet of its own, from `start` to `end`.

    `on_failure` is told of an I/O error, after which the broker cannot go on. In `threads` it waits for its leader. Not
    every one can be asked about damage.
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
        *,
        can_ask_about_damage: bool = False,
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
        self._can_ask_about_damage = can_ask_about_damage
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
        self._said: dict[TopicPartition, DamageState] = {}  # by the leader, of damage
        self._being_repaired: set[TopicPartition] = set()  # so that an operator need not know
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
            pause_s = self._pause_after(error) if isinstance(error, OtherBytesError) else None
            if pause_s is not None:
                return pause_s
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
        if self._ended.is_set():
            return
        for where in self._retry_s.keys() - obstacles.keys():
            del self._retry_s[where]
            self._said.pop(where, None)
            self._being_repaired.discard(where)
            self._outages.over(where)
        for where, error in obstacles.items():
            if now_s >= self._retry_s.get(where, now_s):
                self._retry_s[where] = now_s + self._retry(where, error)
        obstacles = self.following.obstacles()
        if self._ended.is_set():
            return
        for where in obstacles.keys() - self._logs.obstacles.keys():
            self._outages.failed(
                "replica %s does not follow in %s: %s", self.following.me, where, obstacles[where], of=where
            )
        self._logs.obstacles = obstacles
        damage = [
            str(error)
            for where, error in obstacles.items()
            if isinstance(error, DamagedBytesError) and where not in self._being_repaired
        ]
        more = f", and in {len(damage) - 1} more partitions" if len(damage) > 1 else ""
        self.trouble = f"cannot copy all that {self.following.role.leader} has: {damage[0]}{more}" if damage else ""
        first = next(iter(obstacles.items()), None)
        self.obstacle = None if first is None else f"does not follow in {first[0]}: {first[1]}"

    # Damage at the leader

    def _retry(self, where: TopicPartition, error: LogError) -> float:
        """Let a partition try again, or copy damaged bytes as they are; return after how long to do so again."""
        if isinstance(error, DamagedBytesError) and self._can_ask_about_damage:
            offset = self.following.end_of(where)
            given = self._ask_about_damage(where, offset)
            if given is not None:
                before, self._said[where] = self._said.get(where), given.state
                if given.state is DamageState.LISTED:
                    return self._copy_damaged(where, offset, given)
                if given.state is DamageState.REPAIRING or before is not DamageState.GOOD:
                    self._being_repaired.add(where)
                    if given.state is DamageState.GOOD:
                        self.following.retry([where])
                    return MENDING_RETRY_S
            self._being_repaired.discard(where)
        if where in self._retry_s:  # it is not new
            self.following.retry([where])
        return OBSTACLE_RETRY_S

    def _copy_damaged(self, where: TopicPartition, offset: int, given: DamageGiven) -> float:
        with self._taking:
            if self._ended.is_set() or not given.is_whole:
                return MENDING_RETRY_S
            try:
                if self.following.copy_damaged(where, offset, given):
                    self._logs.note_damage(where, given.segment, offset, offset + len(given.data))
                    self._logs.flush()
            except LogClosedError:
                raise
            except KafkaError as error:
                logger.warning("replica %s does not copy damaged messages of %s: %s", self.following.me, where, error)
                return OBSTACLE_RETRY_S
        return 0

    def _pause_after(self, error: OtherBytesError) -> float | None:
        """Return when to go on after a message differs, since the leader's is damaged, or good; None if not at all.

        A damaged one is repaired. A good one wins where no client may have read this replica's.
        """
        given = self._ask_about_damage(error.where, error.offset) if self._can_ask_about_damage else None
        is_doubtful = isinstance(error, DoubtfulCutError)
        if given is None:
            self.obstacle = f"does not know yet whether to cut {error.where}: {error}"
            return MENDING_RETRY_S if is_doubtful else None
        if given.state is DamageState.GOOD:
            if is_doubtful:
                self.following.confirm_cut(error.where, error.offset)
            return 0 if is_doubtful else None
        if given.state is DamageState.LISTED and not self._pass_damaged(error.where, error.offset, given.end):
            return None
        self.obstacle = f"has good messages at offset {error.offset} of {error.where}, which are damaged at its leader"
        logger.warning("replica %s %s", self.following.me, self.obstacle)
        return MENDING_RETRY_S

    def _pass_damaged(self, where: TopicPartition, offset: int, end: int) -> bool:
        with self._taking:
            try:
                return not self._ended.is_set() and self.following.pass_damaged(where, offset, end)
            except LogClosedError:
                raise
            except KafkaError as error:
                logger.warning("replica %s cannot read its log %s: %s", self.following.me, where, error)
                return False

    def _ask_about_damage(self, where: TopicPartition, offset: int) -> DamageGiven | None:
        """Return what the leader says of an offset; None if it does not answer."""
        role = self.following.role
        frame = encode_segment_ask(DamageAsk(Asker(role.epoch, self.following.me, where), offset))
        outcome = self._threads.spawn(self._exchange, frame, decode_damage).get()
        if isinstance(outcome, DamageGiven):
            return outcome
        logger.info("replica %s: %s does not say what is damaged: %s", self.following.me, role.leader, outcome)
        return None

    def _ask(self) -> None:
        with self._taking:
            if self._ended.is_set():
                return
            frame = encode_fetch(WaitingFetch(self.following.fetch(), MAX_WAIT_MS))
        outcome = self._threads.spawn(self._exchange, frame, partial(decode_data, broker_id=self._broker_id)).get()
        with self._taking:
            if self._ended.is_set():
                return
            if isinstance(outcome, KafkaError):
                raise outcome
            assert isinstance(outcome, ReplicaData)
            try:
                self.following.take(outcome)
            except LogClosedError:
                raise
            except KafkaError:
                self._logs.flush()  # what other partitions got
                raise
            self._logs.flush()

    def _exchange(
        self, frame: bytes, decode: Callable[[AnyBytes], ReplicaData | DamageGiven]
    ) -> ReplicaData | DamageGiven | KafkaError:
        """Ask, in a thread: what it raises is returned, since a pool prints what leaves it."""
        try:
            response = self._connection.request(frame)
            return decode(decode_response(response, "a replica fetch"))
        except KafkaError as error:
            return error
