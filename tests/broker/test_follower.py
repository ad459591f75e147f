"""A follower whose leader has damaged bytes asks what is wrong, copies them if nobody has better ones, or waits."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, cast

import gevent
import gevent.socket
import pytest
from gevent.threadpool import ThreadPool

from kafka2011.broker.replication.follower import Follower
from kafka2011.errors import LogError
from kafka2011.replica.codec import REPLICA_FETCH, decode_fetch, encode_data
from kafka2011.replica.exchange import Given, ReplicaData
from kafka2011.replica.followed_log import DamagedBytesError
from kafka2011.replica.following import Following
from kafka2011.replica.segments import DamageGiven, DamageState, decode_segment_ask, encode_damage
from kafka2011.replica.state import Follow, Replica
from tests.models.replica.logs import ModelLog
from tests.support.waiting import TIMEOUT_S
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ID, EPOCH = 3, 7
A, B = Replica("a", "9c2e"), Replica("b", "51f3")
VIEWS, CLICKS = TopicPartition("views", ID, 0), TopicPartition("clicks", ID, 0)
_LENGTH = struct.Struct(">i")
BAD = b"!!"


class PickyLog(ModelLog):
    """Appends no damaged bytes, unless it is told that nobody has better ones."""

    error: LogError | None = None

    def append(self, data: bytes, segment: int, _modified_ms: int = 0) -> None:
        good = data.partition(BAD)[0]
        if not good:
            raise DamagedBytesError("offset 2 of views-0 is damaged")
        super().append(good, segment)

    def append_damaged(self, data: bytes, segment: int, modified_ms: int) -> None:
        if self.error is not None:
            raise self.error
        super().append_damaged(data, segment, modified_ms)


class Logs:
    """What a follower works with beside its `following`."""

    def __init__(self) -> None:
        self.views, self.clicks = PickyLog(), PickyLog()
        self.obstacles: dict[TopicPartition, Any] = {}
        self.damage: list[tuple[object, ...]] = []

    def flush(self) -> None:
        self.views.flush()
        self.clicks.flush()

    def note_damage(self, *damage: object) -> None:
        self.damage.append(damage)


class Leader:
    """Gives what `views` and `clicks` have, and says of damage what the test wants."""

    def __init__(self) -> None:
        self.views, self.clicks = b"m1" + BAD + b"m3", b"n1n2"
        self.says: list[DamageGiven] = []
        self.asked: list[int] = []
        self.listener = gevent.socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.serving = gevent.spawn(self._serve)

    def _serve(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rb") as reader:
                while head := reader.read(_LENGTH.size):
                    frame = reader.read(*_LENGTH.unpack(head))
                    for part in self._answers(frame):
                        connection.sendall(cast("bytes", part))

    def _answers(self, frame: bytes) -> tuple[Any, ...]:
        if frame[:2] != struct.pack(">h", REPLICA_FETCH):
            ask: Any = decode_segment_ask(frame, ID)
            self.asked.append(ask.offset)
            return (encode_damage(self.says[0] if len(self.says) == 1 else self.says.pop(0)),)
        asks = decode_fetch(frame, ID).fetch.asks
        given = {
            where: Given(
                0, len(data), len(data), data=data[asks[where].offset :] if asks[where].flushed is not None else b""
            )
            for where, data in ((VIEWS, self.views), (CLICKS, self.clicks))
        }
        gevent.sleep(0.005)  # as a leader waits for more
        return encode_data(ReplicaData(EPOCH, given))


class Running:
    """A follower beside its leader."""

    def __init__(self, threads: ThreadPool) -> None:
        self.leader, self.logs = Leader(), Logs()
        self.failures: list[BaseException] = []
        self._threads = threads

    def start(self, *, can_ask: bool = True) -> Follower:
        logs: Any = {VIEWS: self.logs.views, CLICKS: self.logs.clicks}
        following = Following(
            B, Follow(EPOCH, A), logs=logs, readable={}, new_log=lambda _: ModelLog(), asks_before_cuts=can_ask
        )
        self.follower = Follower(
            following,
            cast("Any", self.logs),
            ("127.0.0.1", self.leader.listener.getsockname()[1]),
            "",
            ID,
            self.failures.append,
            self._threads,
            can_ask_about_damage=can_ask,
        )
        self.follower.start()
        return self.follower

    def until(self, is_so: Callable[[], object]) -> None:
        with gevent.Timeout(TIMEOUT_S):
            while not is_so():
                assert not self.failures
                gevent.sleep(0.005)


@pytest.fixture
def running() -> Iterator[Running]:
    threads = ThreadPool(2)
    running = Running(threads)
    yield running
    running.follower.end()
    running.leader.serving.kill()
    running.leader.listener.close()
    threads.kill()


def test_it_copies_what_the_leader_lists_and_goes_on(running: Running) -> None:
    """And notes where it is damaged, too."""
    running.leader.says = [DamageGiven.listed(0, 4, 0, BAD)]
    follower = running.start()
    running.until(lambda: running.logs.views.appended_end_offset == 6)
    assert running.logs.views.now == ((0, b"m1" + BAD + b"m3"),)
    assert running.logs.damage == [(VIEWS, 0, 2, 4)]
    assert running.leader.asked == [2]
    running.until(lambda: follower.obstacle is None)
    assert follower.trouble == ""


def test_it_keeps_good_messages_that_are_damaged_at_a_leader_that_is_being_repaired(running: Running) -> None:
    """Although no client can have read them: they may be the only good copy."""
    running.logs.views.append(b"m1m2m3", 0)
    running.logs.flush()
    running.leader.says = [DamageGiven(DamageState.REPAIRING)]
    follower = running.start()
    running.until(lambda: len(running.leader.asked) == 2)
    assert set(running.leader.asked) == {0}
    assert "has good messages at offset 0" in str(follower.obstacle)
    assert running.logs.views.now == ((0, b"m1m2m3"),)

    running.leader.views = b"m1m2m3"
    running.leader.says = [DamageGiven(DamageState.GOOD)]
    running.until(lambda: follower.obstacle is None)
    running.until(lambda: running.logs.views.now == ((0, b"m1m2m3"),))


def test_it_cuts_what_differs_once_the_leaders_is_known_to_be_good(running: Running) -> None:
    running.logs.views.append(b"m1x2x3", 0)
    running.logs.flush()
    running.leader.views = b"m1m2m3"
    running.leader.says = [DamageGiven(DamageState.GOOD)]
    follower = running.start()
    running.until(lambda: follower.obstacle is None)
    running.until(lambda: running.logs.views.now == ((0, b"m1m2m3"),))
    assert running.leader.asked == [0]


def test_it_waits_for_a_leader_that_is_being_repaired(running: Running) -> None:
    """An operator need not know; nothing damaged is copied."""
    running.leader.says = [DamageGiven(DamageState.REPAIRING)]
    follower = running.start()
    running.until(lambda: len(running.leader.asked) == 2)
    assert (follower.trouble, running.logs.clicks.appended_end_offset) == ("", 4)
    assert "does not follow in views/3-0" in str(follower.obstacle)
    running.leader.says = [DamageGiven(DamageState.GOOD)]
    running.leader.views = b"m1m2m3"
    running.until(lambda: running.logs.views.appended_end_offset == 6)
    running.until(lambda: follower.obstacle is None)
    assert running.logs.damage == []


@pytest.mark.parametrize("is_changed", [True, False])
def test_it_copies_nothing_that_was_changed_on_its_way_and_nothing_that_it_cannot_append(
    running: Running, is_changed: bool
) -> None:
    """The broker goes on, and so do other partitions."""
    listed = DamageGiven.listed(0, 4, 0, BAD)
    running.leader.says = [listed._replace(data=b"!?") if is_changed else listed]
    running.logs.views.error = None if is_changed else LogError("no file can be opened for now")
    follower = running.start()
    running.until(lambda: running.leader.asked and running.logs.obstacles)
    running.until(lambda: running.logs.clicks.appended_end_offset == 4)
    assert running.logs.views.appended_end_offset == 2
    assert follower.trouble.startswith("cannot copy all that a:9c2e has: offset 2 of views-0 is damaged")


def test_it_asks_nothing_of_a_leader_that_does_not_know_the_question(running: Running) -> None:
    """A leader of 0.2.0 would end the connection. The member's node says what is wrong."""
    follower = running.start(can_ask=False)
    running.until(lambda: follower.trouble)
    running.until(lambda: running.logs.clicks.appended_end_offset == 4)
    assert list(running.logs.obstacles) == [VIEWS]
    assert running.leader.asked == []
