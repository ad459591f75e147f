"""A broker's segments are kept beyond their deletion, and damaged so that the account knows it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from integration.chaos.member import find_flip
from integration.chaos.records import MessageId, payload_of
from integration.chaos.segments import Archive, logged_in, messages_of, segments_in
from kafka2011.errors import InvalidMessageError
from kafka2011.message.message_set import MessageSet
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

WHERE = TopicPartition("chaos-1", 2, 0)


def write_segment(logs: Path, offset: int, first: int, last: int) -> Path:
    """Write a segment with the messages of these numbers."""
    path = logs / "chaos-1-0" / f"{offset:020}.kafka"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(MessageSet([payload_of(MessageId("p.1", n), "k") for n in range(first, last)])))
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(2, tmp_path / "logs", tmp_path / "kept")


def numbers(archive: Archive) -> list[int]:
    every = (logged.message for segment in archive.segments() for logged in logged_in(segment))
    return [message.number for message in every if message]


def test_what_was_deleted_is_kept(archive: Archive, tmp_path: Path) -> None:
    """Segments are read in order, those that were deleted too, and appends are seen."""
    first = write_segment(tmp_path / "logs", 0, 0, 5)
    second = write_segment(tmp_path / "logs", first.stat().st_size, 5, 7)
    assert numbers(archive) == list(range(7))
    first.unlink()
    with second.open("ab") as file:
        file.write(bytes(MessageSet([payload_of(MessageId("p.1", 7), "k"), b"torn"]))[:-2])
    assert numbers(archive) == list(range(8))
    assert [segment.offset for segment in segments_in(tmp_path / "logs", 2)] == [int(second.stem)]


def test_a_segment_that_was_begun_anew(archive: Archive, tmp_path: Path) -> None:
    """A file that takes the place of another is kept in its place."""
    write_segment(tmp_path / "logs", 0, 0, 1).with_suffix(".old").touch()
    assert numbers(archive) == [0]
    (tmp_path / "logs" / "chaos-1-0" / f"{0:020}.kafka").unlink()
    write_segment(tmp_path / "logs", 0, 1, 3)
    assert numbers(archive) == [1, 2]


def test_a_deletion_is_noted_with_what_was_left(archive: Archive, tmp_path: Path) -> None:
    """Once, with the times between which it happened; a file that never held anything is none."""
    first = write_segment(tmp_path / "logs", 0, 0, 5)
    size = first.stat().st_size
    second = write_segment(tmp_path / "logs", size, 5, 7)
    empty = write_segment(tmp_path / "logs", size + second.stat().st_size, 7, 7)
    before_s = SYSTEM_CLOCK.monotonic_s()
    assert archive.deletions() == []
    between_s = SYSTEM_CLOCK.monotonic_s()
    first.unlink()
    empty.unlink()
    [deletion] = archive.deletions()
    assert (deletion.where, deletion.offset, deletion.left_bytes) == (WHERE, 0, second.stat().st_size)
    assert before_s <= deletion.seen_s <= between_s <= deletion.missed_s <= SYSTEM_CLOCK.monotonic_s()
    second.unlink()
    assert [(each.offset, each.left_bytes) for each in archive.deletions()] == [(0, deletion.left_bytes), (size, 0)]


def test_what_a_power_cut_takes_is_no_deletion(archive: Archive, tmp_path: Path) -> None:
    """The messages that went with files or their ends are told, torn ones too; the others stay."""
    first = write_segment(tmp_path / "logs", 0, 0, 5)
    second = write_segment(tmp_path / "logs", first.stat().st_size, 5, 7)

    def take() -> dict[Path, int]:
        left = len(payload_of(MessageId("p.1", 0), "k")) + 30  # one whole message, and some of the next
        os.truncate(first, left)
        second.unlink()
        return {first: left, second: 0}

    assert {message.number for message in archive.lose(take)} == set(range(1, 7))
    assert archive.deletions() == []
    assert archive.lose(dict) == set()


def test_a_flipped_bit(archive: Archive, tmp_path: Path) -> None:
    """One message of a closed segment becomes unreadable; what it was is kept."""
    assert archive.flip(0.0) is None
    first = write_segment(tmp_path / "logs", 0, 0, 5)
    assert archive.flip(0.0) is None, "nothing is closed yet"
    write_segment(tmp_path / "logs", first.stat().st_size, 5, 7)
    flip = archive.flip(0.5)
    assert flip is not None
    assert archive.flip(0.5) is None, "twice would mend it"
    assert numbers(archive) == list(range(7))
    damaged = segments_in(tmp_path / "logs", 2)[0]
    read = []
    with pytest.raises(InvalidMessageError) as caught:
        read += list(messages_of(damaged))
    good = [each for each in messages_of(archive.segments()[0]) if each.offset == flip.offset]
    assert [each.next_offset for each in good] == [flip.next_offset]
    line = f"{flip.where} {flip.offset} {flip.next_offset}\n"
    assert find_flip(str(caught.value), ["chaos-1/2-0 999999 1000000\n", line]) == (WHERE, flip.next_offset)
    assert find_flip(str(caught.value), []) is None
    assert find_flip("broker 2 hung up", [line]) is None
