"""ZooKeeper's transaction logs are read as they are written, and replayed into owners and commits."""

from __future__ import annotations

import struct
import zlib

from integration.chaos.registry_history import FOREVER_S, Commit, Owned, history_of, wall_to_lease_s
from integration.chaos.zk_log import Write, merge, read_transactions
from tests.support.clocks import ManualClock
from zk.cluster import TopicPartition

FILE_HEADER = b"ZKLG" + struct.pack(">iq", 2, 0)
WHERE = TopicPartition("views", 0, 3)
OWNER = "/consumers/g/owners/views/0-3"
OFFSET = "/consumers/g/offsets/views/0-3"


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def create(path: str, data: str, *, ephemeral: bool) -> tuple[int, bytes]:
    acl = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
    return 1, text(path) + text(data) + acl + bytes([ephemeral]) + struct.pack(">i", 1)


def delete(path: str) -> tuple[int, bytes]:
    return 2, text(path)


def set_data(path: str, data: str) -> tuple[int, bytes]:
    return 5, text(path) + text(data) + struct.pack(">i", 1)


CLOSE = (-11, b"")


def transaction(zxid: int, kind_and_body: tuple[int, bytes], *, session: int = 7, time_ms: int | None = None) -> bytes:
    kind, body = kind_and_body
    when = 1000 * zxid if time_ms is None else time_ms
    entry = struct.pack(">qiqqi", session, 1, zxid, when, kind) + body
    return struct.pack(">qi", zlib.adler32(entry), len(entry)) + entry + b"B"


def file_of(*transactions: bytes) -> bytes:
    return FILE_HEADER + b"".join(transactions) + bytes(100)


def test_a_file() -> None:
    """Creates, writes, deletions and ends of sessions, also within a multi; the rest is passed over."""
    kind, body = set_data(OFFSET, "12")
    multi = struct.pack(">i", 2)
    for each, data in (delete(OWNER), (kind, body)):
        multi += struct.pack(">ii", each, len(data)) + data
    data = file_of(
        transaction(1, create(OWNER, "g_a-0", ephemeral=True)),
        transaction(2, (-10, struct.pack(">i", 3000))),
        transaction(3, (14, multi)),
        transaction(4, CLOSE),
    )
    assert list(read_transactions(data)) == [
        Write(1, 1000, 7, "create", OWNER, b"g_a-0", is_ephemeral=True),
        Write(3, 3000, 7, "delete", OWNER, b""),
        Write(3, 3000, 7, "set", OFFSET, b"12"),
        Write(4, 4000, 7, "close", "", b""),
    ]


def test_a_torn_file() -> None:
    """What was not written to its end is left out, and so is a file that is something else."""
    data = file_of(transaction(1, delete("/a")), transaction(2, delete("/b")))
    assert [write.path for write in read_transactions(data[:-110])] == ["/a"]
    assert list(read_transactions(data[:20])) == list(read_transactions(b"SNAP" + data[4:])) == []


def test_what_a_deposed_leader_wrote_alone() -> None:
    """Only what a majority logged was committed; each counts once, in order."""
    both = [transaction(1, delete("/a")), transaction(3, delete("/c"))]
    alone = transaction(2, CLOSE)
    servers = [[file_of(both[0]), file_of(alone)], [file_of(*both)], [file_of(*both)]]
    assert [write.path for write in merge(servers)] == ["/a", "/c"]


def test_the_history_of_owners_and_commits() -> None:
    """Who owned a partition from when to when, and whose it was when an offset was written."""
    servers = [
        [
            file_of(
                transaction(1, create(OWNER, "g_a-0", ephemeral=True), session=7),
                transaction(2, create(OFFSET, "0", ephemeral=False), session=7),
                transaction(3, CLOSE, session=7),
                transaction(4, set_data(OFFSET, "5"), session=7),
                transaction(5, create(OWNER, "g_b-0", ephemeral=True), session=8),
                transaction(6, set_data(OFFSET, "6"), session=7),
                transaction(7, delete(OWNER), session=8),
                transaction(8, create(OWNER, "g_a-0", ephemeral=True), session=9),
                transaction(9, set_data("/brokers/ids/1", "x"), session=9),
            )
        ]
    ]
    history = history_of(merge(servers), -1.0)
    assert history.owned == [
        Owned("g", WHERE, "a", 7, 0.0, 2.0),
        Owned("g", WHERE, "b", 8, 4.0, 6.0),
        Owned("g", WHERE, "a", 9, 7.0, FOREVER_S),
    ]
    assert history.commits == [
        Commit(1.0, "g", WHERE, 0, 7, 7),
        Commit(3.0, "g", WHERE, 5, 7, 0),
        Commit(5.0, "g", WHERE, 6, 7, 8),
    ]


def test_the_clocks_are_compared_on_a_busy_machine() -> None:
    """Whoever is stopped between two looks, for longer than commits and hand-outs lie apart, looks again."""

    class BusyClock(ManualClock):
        looks = 0

        def wall_s(self) -> float:
            self.looks += 1
            self.sleep(0.001 if self.looks == 7 else 0.068)
            return super().wall_s()

    assert abs(wall_to_lease_s(BusyClock(100.0, wall_lead_s=5000.0)) + 5000.0) < 0.002
