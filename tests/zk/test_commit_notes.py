"""Commits of gateways: an offset that 0.7 reads, and a note that holds until anybody writes the offset again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from kazoo import exceptions as kazoo_errors

from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed
from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.cluster import TopicPartition
from zk.commit_notes import ABSENT, CommitNotes, GroupCommit
from zk.errors import MalformedNode, VersionConflict, ZkError
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

P0, P1 = TopicPartition("views", 0, 0), TopicPartition("views", 3, 1)
MANY = [TopicPartition("views", 0, number) for number in range(40)]
NOTED = GroupCommit(700, 3, "größe")
ABOVE = GroupCommit(700, metadata="größe", number=10**12)
"""A number that has no place in the log, and the nearest place."""


@pytest.fixture
def client() -> Any:
    return ZkClientInMemory()


@pytest.fixture
def notes(client: Any) -> CommitNotes:
    return CommitNotes(client)


def number_of(notes: CommitNotes, where: TopicPartition) -> int | None:
    commit = notes.read_many("readers", [where])[where]
    assert isinstance(commit, GroupCommit)
    return commit.number


def read(notes: CommitNotes, *partitions: TopicPartition) -> dict[TopicPartition, tuple[int, int, str]]:
    found = notes.read_many("readers", partitions)
    return {where: commit[:3] for where, commit in found.items() if isinstance(commit, GroupCommit)}


def write(notes: CommitNotes, where: TopicPartition, commit: GroupCommit) -> int | ZkError:
    return notes.write_many("readers", {where: commit})[where]


def test_a_commit_is_read_as_it_was_written(notes: CommitNotes) -> None:
    """Of a partition without one, nothing."""
    assert notes.write_many("readers", {P0: NOTED, P1: GroupCommit(12)}) == {P0: 0, P1: 0}
    assert read(notes, P0, P1, TopicPartition("views", 9, 9)) == {P0: NOTED[:3], P1: (12, 0, "")}
    assert notes.partitions("readers") == [P0, P1]
    assert notes.partitions("others") == []


def test_many_commits_are_read_as_they_were_written(notes: CommitNotes) -> None:
    commits = {where: GroupCommit(where.partition, where.partition % 2) for where in MANY}
    for version in range(2):
        assert notes.write_many("readers", commits) == dict.fromkeys(MANY, version)
        assert read(notes, *MANY) == {where: commit[:3] for where, commit in commits.items()}


def test_0_7_reads_the_offset(notes: CommitNotes, client: Any) -> None:
    write(notes, P0, NOTED)
    assert client.tree["/consumers/readers/offsets/views/0-0"].data == b"700"


def test_what_0_7_can_say_needs_no_note(notes: CommitNotes, client: Any) -> None:
    """It is half of the writes, and of most commits."""
    write(notes, P0, GroupCommit(700))
    assert not any(path.startswith(paths.GATEWAY_COMMITS) for path in client.tree)


@pytest.mark.parametrize("position", [700, 900])
def test_whoever_writes_the_offset_again_makes_the_note_void(notes: CommitNotes, client: Any, position: int) -> None:
    """A member or a tool of 0.7, also with the same position: it is to be read again from the wrapper's start."""
    write(notes, P0, NOTED)
    OffsetRegistry(client).write("readers", P0, position)
    assert read(notes, P0) == {P0: (position, 0, "")}


@pytest.mark.parametrize("number", [0, 10**12, -1, -2, -(2**63)])
def test_a_number_without_a_place_is_read_until_the_offset_is_written_again(
    notes: CommitNotes, client: Any, number: int
) -> None:
    write(notes, P0, GroupCommit(700, number=number))
    assert number_of(notes, P0) == number
    assert client.tree["/consumers/readers/offsets/views/0-0"].data == b"700"
    OffsetRegistry(client).write("readers", P0, 700)
    notes.renew_many("readers", [P0])
    assert number_of(notes, P0) == number
    assert notes.note_many("readers", {P0: GroupCommit(700, version=1)}) == {}
    assert number_of(notes, P0) is None
    write(notes, P0, GroupCommit(700, number=number))
    OffsetRegistry(client).write("readers", P0, 700)
    assert number_of(notes, P0) is None


def test_a_gateway_that_knows_no_numbers_reads_the_rest_of_a_note(notes: CommitNotes, client: Any) -> None:
    """It uses the same four keys as before; a note without a number has only these."""
    keys = {"start", "within", "version", "metadata"}
    for commit, more in ((NOTED, set()), (ABOVE, {"number"})):
        write(notes, P0, commit)
        assert set(json.loads(client.tree[paths.gateway_commit("readers", P0)].data)) == keys | more


def test_a_note_holds_on_once_it_was_renewed(notes: CommitNotes, client: Any) -> None:
    """As a new owner does that has written the offset once more, so that former ones cannot."""
    write(notes, P0, NOTED)
    OffsetRegistry(client).write("readers", P0, NOTED.position)
    notes.renew_many("readers", [P0, P1])
    assert read(notes, P0) == {P0: NOTED[:3]}


def test_a_note_of_an_earlier_write_is_not_renewed(notes: CommitNotes, client: Any) -> None:
    write(notes, P0, NOTED)
    for _ in range(2):
        OffsetRegistry(client).write("readers", P0, NOTED.position)
    notes.renew_many("readers", [P0])
    assert read(notes, P0) == {P0: (700, 0, "")}


def test_an_offset_that_is_made_again_makes_the_note_void(notes: CommitNotes, client: Any) -> None:
    """Its versions count from 0 again."""
    write(notes, P0, NOTED)
    client.delete_async(paths.offset("readers", P0))
    OffsetRegistry(client).write("readers", P0, NOTED.position)
    assert read(notes, P0) == {P0: (700, 0, "")}


def test_a_write_between_offset_and_note_makes_the_note_void(notes: CommitNotes, client: Any) -> None:
    """Whose note comes later is not whose offset is the newer."""
    written: list[str] = []

    def write_between(call: str, path: str) -> None:
        if call == "create" and path == paths.gateway_commit("readers", P0) and not written:
            written.append(path)
            OffsetRegistry(client).write("readers", P0, NOTED.position)

    client.before = write_between
    write(notes, P0, NOTED)
    assert written
    assert read(notes, P0) == {P0: (700, 0, "")}


def test_a_rewind_within_a_wrapper_counts(notes: CommitNotes) -> None:
    """The offset stays as it is, and so does its version; members do not write it again."""
    write(notes, P0, GroupCommit(700))
    for within in (5, 2, 0, 0, 1, 0):
        assert notes.note_many("readers", {P0: GroupCommit(700, within, version=0)}) == {}
        assert read(notes, P0) == {P0: (700, within, "")}


def test_a_commit_without_a_note_makes_the_one_of_before_void(notes: CommitNotes) -> None:
    write(notes, P0, NOTED)
    write(notes, P0, GroupCommit(700))
    assert read(notes, P0) == {P0: (700, 0, "")}
    write(notes, P0, GroupCommit(700, 5))
    assert read(notes, P0) == {P0: (700, 5, "")}


def lose_notes(call: str, path: str) -> None:
    if call in {"create", "set"} and path.startswith(paths.GATEWAY_COMMITS):
        raise kazoo_errors.ConnectionLoss


def test_who_dies_between_the_two_writes_skips_nothing(notes: CommitNotes, client: Any) -> None:
    """The offset is written first: the wrapper is read from its start."""
    write(notes, P0, GroupCommit(500, 2))
    client.before = lose_notes
    assert isinstance(write(notes, P0, NOTED), ZkError)
    assert read(notes, P0) == {P0: (700, 0, "")}


def test_a_reader_beside_a_writer_skips_nothing(notes: CommitNotes, client: Any) -> None:
    """Whenever the writer comes between: it reads the old place, or the new one, or that without its note."""
    for step in range(12):
        write(notes, P0, GroupCommit(500, 2))
        calls = iter(range(100))

        def write_at(_call: str, _path: str, calls: Any = calls, step: int = step) -> None:
            if next(calls) == step:
                client.before = lambda _call, _path: None
                write(notes, P0, NOTED)

        client.before = write_at
        assert read(notes, P0)[P0] in {(500, 2, ""), NOTED[:3], (700, 0, "")}
        client.before = lambda _call, _path: None


def test_a_commit_with_a_version_is_refused_where_another_has_written(notes: CommitNotes, client: Any) -> None:
    """And leaves what is there, with its note."""
    version = write(notes, P0, NOTED)
    assert isinstance(version, int)
    for wrong in (ABSENT, version + 1):
        assert isinstance(write(notes, P0, GroupCommit(1, 1, version=wrong)), VersionConflict)
    assert read(notes, P0) == {P0: NOTED[:3]}
    assert write(notes, P0, GroupCommit(900, 1, version=version)) == version + 1
    assert write(notes, P1, GroupCommit(5, 1, version=ABSENT)) == 0
    assert read(notes, P0, P1) == {P0: (900, 1, ""), P1: (5, 1, "")}
    assert isinstance(notes.read_many("readers", [P0])[P0], GroupCommit)


def test_an_offset_that_is_deleted_while_it_is_written_is_made(notes: CommitNotes, client: Any) -> None:
    write(notes, P0, NOTED)
    gone: list[str] = []

    def delete_first(call: str, path: str) -> None:
        if call == "set" and not gone:
            gone.append(path)
            notes.delete("readers", [P0])

    client.before = delete_first
    assert write(notes, P0, NOTED) == 0
    assert read(notes, P0) == {P0: NOTED[:3]}


WITH_A_LIST = b'{"start": 700, "within": 1, "version": 0, "metadata": "", "number": []}'


@pytest.mark.parametrize("text", [b"", b"[]", b"7", b'{"start": 700}', WITH_A_LIST, b"\xff", None])
def test_a_note_that_cannot_be_read_counts_as_none(notes: CommitNotes, client: Any, text: bytes | None) -> None:
    write(notes, P0, NOTED)
    client.set_async(paths.gateway_commit("readers", P0), text)
    assert read(notes, P0) == {P0: (700, 0, "")}
    assert notes.malformed.count == 1


def test_an_offset_that_cannot_be_read_is_told(notes: CommitNotes, client: Any) -> None:
    write(notes, P0, NOTED)
    client.set_async(paths.offset("readers", P0), b"x")
    assert isinstance(notes.read_many("readers", [P0])[P0], MalformedNode)


def test_deleted_commits_are_gone_with_their_notes(notes: CommitNotes, client: Any) -> None:
    notes.write_many("readers", {P0: NOTED, P1: NOTED})
    notes.delete("readers", [P0, TopicPartition("views", 9, 9)])
    assert read(notes, P0, P1) == {P1: NOTED[:3]}
    assert paths.gateway_commit("readers", P0) not in client.tree


DEFECTS = read_defects("gateway_commit_notes").values()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest) -> None:
    check: Callable[..., None] = globals()[defect.shows["noticed_by"]]
    assert_noticed(defect, check, request)
