"""A replica repairs its damaged segments by the copies of others, and says what nobody has better."""

from __future__ import annotations

import os
import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gevent
import gevent.socket
import pytest
from gevent.event import Event
from gevent.threadpool import ThreadPool

from kafka2011.broker.replication.repairer import Repairer
from kafka2011.broker.replication.replica_log import ReplicaLogs
from kafka2011.broker.replication.segment_comparer import SegmentComparer
from kafka2011.broker.replication.segment_server import SegmentServer
from kafka2011.broker.replication.view import ReplicaView
from kafka2011.broker.requests.handlers import RefusedError
from kafka2011.broker.scrubber import NotComparedError
from kafka2011.disk import SYSTEM_DISK
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.scrub import ClosedSegment
from kafka2011.log.scrub_record import DamagedRange, DifferingRange, SegmentKey
from kafka2011.message.message_set import encode
from kafka2011.replica.segments import (
    SPOKEN,
    Asker,
    DamageAsk,
    DamageGiven,
    DamageState,
    DigestAsk,
    SegmentAsk,
    decode_damage,
    decode_segment_ask,
    encode_segment_ask,
)
from kafka2011.replica.state import Replica, ReplicaState
from kafka2011.wire.protocol import decode_response
from tests.planted.patches import read_defects
from tests.planted.planting import planted
from tests.support.logs import new_log_manager
from tests.support.waiting import TIMEOUT_S
from zk.cluster import TopicPartition
from zk.replicas import Member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafka2011.log.segment import LogSlice

ID, EPOCH = 3, 7
A, B = Replica("a", "9c2e"), Replica("b", "51f3")
VIEWS = TopicPartition("views", ID, 0)
PART = b"".join(encode(b"%0100d" % number) for number in range(30))
SIZE = len(PART) // 30
SECOND = SegmentKey("views", 0, len(PART))
_LENGTH = struct.Struct(">i")


class Process:
    """A replica: its logs of three segments, what repairs them, and a port where it answers others."""

    def __init__(self, me: Replica, directory: Path) -> None:
        self.me = me
        settings = LogSettings(max_segment_bytes=len(PART) - 1)
        self.manager = new_log_manager(directory, of=lambda _topic: settings, on_flushed=lambda _log: None)
        self.manager.open()
        self.log = self.manager.get_or_create("views", 0)
        for _ in range(3):
            self.log.append(PART, 30)
        self.log.flush()
        self.view: ReplicaView | None = None
        self.stopping = Event()
        self.leading: Any = None
        self.stored: list[str] = []
        logs = ReplicaLogs(self.manager, ID)
        self.repairer = Repairer(
            self.manager,
            ID,
            lambda: self.view,
            self.stopping,
            SYSTEM_DISK,
            lambda: self.stored.append(self.manager.scrubbed.text),
        )
        self.server = SegmentServer(logs, ID, self.repairer, lambda: self.view, lambda: self.leading)
        self.listener = gevent.socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.asked: list[SegmentAsk | DamageAsk | DigestAsk] = []
        self._serving = gevent.spawn(self._serve)

    @property
    def member(self) -> Member:
        return Member("127.0.0.1", self.listener.getsockname()[1], self.me.disk, speaks=SPOKEN)

    @property
    def second(self) -> Path:
        """The file of the closed segment in the middle."""
        return self.log.segments.segments[1].path

    def flip(self, *positions: int) -> None:
        data = bytearray(self.second.read_bytes())
        for position in positions:
            data[position] ^= 4
        self.second.write_bytes(data)

    def finds(self, position: int) -> None:
        """Note damage as a scrub does."""
        start = len(PART) + position - position % SIZE
        self.repairer.note(SECOND, [DamagedRange(SECOND, start, start + SIZE, str(self.second), "CRC differs")])

    def asks(self, offset: int, replica: Replica = B, epoch: int = EPOCH) -> DamageGiven:
        frame = encode_segment_ask(DamageAsk(Asker(epoch, replica, VIEWS), offset))[4:]
        (answer,) = self.server.answer(frame).parts
        assert isinstance(answer, bytes)
        return decode_damage(decode_response(answer[4:], "it"))

    def _serve(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rb") as reader:
                while head := reader.read(_LENGTH.size):
                    frame = reader.read(*_LENGTH.unpack(head))
                    self.asked.append(decode_segment_ask(frame, ID))
                    for part in self.server.answer(frame).parts:
                        connection.sendall(_bytes_of(part))

    def close(self) -> None:
        self.stopping.set()
        self._serving.kill()
        self.listener.close()
        self.manager.close()


def _bytes_of(part: bytes | LogSlice) -> bytes:
    if isinstance(part, bytes):
        return part
    with part:
        return os.pread(part.fd, part.size, part.position)  # as sendfile does


class Cluster:
    """Two replicas, a that leads and b."""

    def __init__(self, directory: Path) -> None:
        self.a, self.b = Process(A, directory / "a"), Process(B, directory / "b")
        self.a.leading = SimpleNamespace(term=SimpleNamespace(epoch=EPOCH), has_lease=True)
        self.see(A, B)

    def see(self, *in_sync: Replica, **b_says: Any) -> None:
        """Let both see who is in sync."""
        state = ReplicaState(EPOCH, A, frozenset(in_sync))
        members = {A: self.a.member, B: self.b.member}
        for key, value in b_says.items():
            members[B] = Member(**{**_fields(members[B]), key: value})
        for process in (self.a, self.b):
            process.view = ReplicaView(process.me, state, members, None, {VIEWS: 3 * len(PART)})

    def repair(self, process: Process, until: Callable[[], object]) -> None:
        """Let a replica repair until something is so."""
        running = gevent.spawn(process.repairer.run)
        with gevent.Timeout(TIMEOUT_S):
            while not until():
                gevent.sleep(0.005)
        process.stopping.set()
        running.get(timeout=TIMEOUT_S)
        process.stopping.clear()


def _fields(member: Member) -> dict[str, Any]:
    names = ("host", "port", "disk", "by_tls", "trouble", "damage", "speaks")
    return {name: getattr(member, name) for name in names}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.a.close()
    cluster.b.close()


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_damaged_segment_is_replaced_by_the_copy_of_a_replica_in_sync(cluster: Cluster, names: str) -> None:
    """Whichever of the two leads; what it knows of the damage is gone, and that is noted."""
    damaged = cluster.a if names == "ab" else cluster.b
    damaged.flip(50)
    damaged.finds(50)
    cluster.repair(damaged, lambda: damaged.manager.scrubbed.repaired_segments)
    assert damaged.second.read_bytes() == PART
    assert damaged.manager.scrubbed.damage() == []
    assert '"damage": []' in damaged.stored[-1]


def gives_up(cluster: Cluster) -> None:
    """Let a replica try that nobody can help; nothing has changed then."""
    before = cluster.a.second.read_bytes()
    cluster.a.finds(50)
    assert not cluster.a.repairer.has_given_up(SECOND)
    cluster.repair(cluster.a, lambda: cluster.a.repairer.has_given_up(SECOND))
    assert cluster.a.second.read_bytes() == before
    assert len(cluster.a.manager.scrubbed.damage()) == 1


def test_only_one_in_sync_that_says_so_is_asked(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """A replica of 0.2.0 would end the connection."""
    cluster.a.flip(50)
    cluster.see(A)
    gives_up(cluster)
    assert cluster.b.asked == []
    assert "no other replica that can be asked is in sync" in caplog.text


def test_one_that_does_not_say_what_it_answers_is_not_asked(cluster: Cluster) -> None:
    cluster.a.flip(50)
    cluster.see(A, B, speaks=())
    gives_up(cluster)
    cluster.see(A, B, by_tls=True)
    assert cluster.a.view is not None
    assert cluster.a.view.helpers() == {}
    assert cluster.b.asked == []


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        (PART[:40] + b"?" + PART[41:], "damaged there too, at offset"),
        (PART[: 5 * SIZE] + encode(b"%0100d" % 77) + PART[6 * SIZE :], "other good messages there"),
    ],
)
def test_a_copy_that_is_no_better_or_another_repairs_nothing(
    cluster: Cluster, copy: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.a.flip(50)
    cluster.b.second.write_bytes(copy)
    gives_up(cluster)
    assert why in caplog.text


def test_it_is_tried_again_as_soon_as_another_is_in_sync(cluster: Cluster) -> None:
    cluster.a.flip(50)
    cluster.see(A)
    gives_up(cluster)
    cluster.see(A, B)
    cluster.repair(cluster.a, lambda: cluster.a.manager.scrubbed.repaired_segments)
    assert cluster.a.second.read_bytes() == PART
    assert not cluster.a.repairer.has_given_up(SECOND)


def test_a_leader_lists_what_nobody_has_better(cluster: Cluster) -> None:
    """First others are asked for it. What it lists is the damaged bytes, up to the next good message."""
    a, at = cluster.a, len(PART) + 2 * SIZE
    assert a.asks(at).state is DamageState.GOOD
    assert a.asks(3 * len(PART)).state is DamageState.GOOD
    a.flip(2 * SIZE + 50, 3 * SIZE + 50)
    assert a.asks(at) == DamageGiven(DamageState.REPAIRING, end=len(PART) + 4 * SIZE)
    assert [each.start for each in a.manager.scrubbed.damage()] == [at]
    cluster.see(A)
    cluster.repair(a, lambda: a.repairer.has_given_up(SECOND))
    given = a.asks(at)
    assert (given.state, given.segment, given.end) == (DamageState.LISTED, len(PART), len(PART) + 4 * SIZE)
    assert given.data == a.second.read_bytes()[2 * SIZE : 4 * SIZE]
    assert given.is_whole
    assert a.asks(at + 5).data == given.data[5:]


def test_a_leader_closes_a_segment_that_is_damaged(cluster: Cluster) -> None:
    """Where it appends nothing more, its bytes can be compared and copied whole."""
    a = cluster.a
    path = a.log.segments.active.path
    data = bytearray(path.read_bytes())
    data[50] ^= 4
    path.write_bytes(data)
    assert a.asks(2 * len(PART)).state is DamageState.REPAIRING
    assert a.log.segment_offsets[-1] == 3 * len(PART)


def test_only_members_are_answered_in_the_same_epoch_and_of_damage_by_a_leader(cluster: Cluster) -> None:
    with pytest.raises(RefusedError, match="not known here"):
        cluster.a.asks(0, replica=Replica("x", "1"))
    with pytest.raises(RefusedError, match="not known here"):
        cluster.a.asks(0, epoch=EPOCH - 1)
    with pytest.raises(RefusedError, match="does not lead"):
        cluster.b.asks(0)
    cluster.a.leading.has_lease = False
    with pytest.raises(RefusedError, match="does not lead"):
        cluster.a.asks(0)
    cluster.a.view = None
    with pytest.raises(RefusedError, match="not known here"):
        cluster.a.asks(0)


def compares(cluster: Cluster) -> DifferingRange | None:
    """Return what b finds when it compares its second segment with that of a."""
    segment = ClosedSegment(SECOND, cluster.b.second, len(PART))
    compare = SegmentComparer(ID, lambda: cluster.b.view)
    pool = ThreadPool(1)
    try:
        with gevent.Timeout(TIMEOUT_S):
            found = pool.spawn(_outcome, compare, segment).get()
    finally:
        pool.kill()
    if isinstance(found, NotComparedError):
        raise found
    return found


def _outcome(compare: SegmentComparer, segment: ClosedSegment) -> DifferingRange | NotComparedError | None:
    try:
        return compare(segment, lambda _bytes: None)
    except NotComparedError as error:
        return error


def test_segments_that_differ_with_good_messages_are_named_and_left(cluster: Cluster) -> None:
    """Either of the two may be right."""
    assert compares(cluster) is None
    other = PART[: 5 * SIZE] + encode(b"%0100d" % 77) + PART[6 * SIZE :]
    cluster.a.second.write_bytes(other)
    assert compares(cluster) == DifferingRange(SECOND, len(PART), 2 * len(PART), str(A))
    assert cluster.a.manager.scrubbed.damage() == []
    assert (cluster.a.second.read_bytes(), cluster.b.second.read_bytes()) == (other, PART)


def test_a_leader_whose_messages_are_damaged_finds_out_when_they_are_compared(cluster: Cluster) -> None:
    """They do not differ, then: they are repaired."""
    cluster.a.flip(50)
    with pytest.raises(NotComparedError, match="damaged there too"):
        compares(cluster)
    assert [each.start for each in cluster.a.manager.scrubbed.damage()] == [len(PART)]
    cluster.repair(cluster.a, lambda: cluster.a.manager.scrubbed.repaired_segments)
    assert compares(cluster) is None


def test_only_a_follower_in_sync_compares_and_only_what_may_have_been_read(cluster: Cluster) -> None:
    """What comes behind that may be other bytes until the follower has compared it."""
    cluster.see(A)
    with pytest.raises(NotComparedError, match="no follower in sync"):
        compares(cluster)
    cluster.see(A, B)
    assert cluster.b.view is not None
    cluster.b.view = cluster.b.view._replace(readable={VIEWS: 2 * len(PART) - 1})
    with pytest.raises(NotComparedError, match="not known that clients may have read"):
        compares(cluster)
    cluster.b.view = cluster.b.view._replace(me=A)
    with pytest.raises(NotComparedError, match="no follower in sync"):
        compares(cluster)
    assert cluster.a.asked == []


def test_planted_defects_are_noticed(cluster: Cluster) -> None:
    """The tests above fail for these."""
    defects = read_defects("damage")
    cluster.see(A)
    with planted(defects["a copy of whoever is alive will do"]):
        assert cluster.a.view is not None
        assert cluster.a.view.helpers()
    assert not cluster.a.view.helpers()
    cluster.see(A, B)
    with planted(defects["what may have to go is compared"]), pytest.raises((AssertionError, pytest.fail.Exception)):
        test_only_a_follower_in_sync_compares_and_only_what_may_have_been_read(cluster)
    cluster.see(A)
    with planted(defects["damage is listed before others were asked"]), pytest.raises(AssertionError):
        test_a_leader_lists_what_nobody_has_better(cluster)
