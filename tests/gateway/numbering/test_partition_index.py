"""Numbers of a partition's messages stay theirs, whatever is lost, put back or removed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from kafka2011.gateway.numbering import stores
from kafka2011.gateway.numbering.boundaries import Boundary, Tail
from kafka2011.gateway.numbering.partition_index import Spacing
from kafka2011.gateway.records.errors import LostBoundaryError
from kafka2011.gateway.records.found import Kind, Origin
from tests.models.gateway.gateway import SPACING, Gateway
from tests.models.gateway.toys import (
    MESSAGE_BYTES,
    KilledError,
    ToyLog,
    overfull,
    plain,
    wrapper,
)
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from collections.abc import Callable


def started(*messages: bytes, log: ToyLog | None = None) -> Gateway:
    gateway = Gateway(log)
    gateway.log.append(*messages)
    gateway.start()
    gateway.read()
    return gateway


def lose_file(gateway: Gateway) -> None:
    gateway.file.stored = gateway.file.tail = None


def plains(first: int, count: int) -> list[bytes]:
    return [plain(name) for name in range(first, first + count)]


def from_sender(name: int, sequence: int = 0, *, records: int = 3, epoch: int = 0, mark: bytes | None = None) -> bytes:
    origin = Origin(77, epoch, sequence, records, mark or b"%08d" % name)
    return wrapper(name, records, origin)


def numbers_of(gateway: Gateway) -> dict[int, tuple[int, int]]:
    return gateway.everything()


def test_numbers_are_dense_from_zero() -> None:
    gateway = started(plain(1), plain(2), wrapper(3, 4), plain(4))
    assert gateway.index.end == Boundary(gateway.log.latest(), 7)
    assert numbers_of(gateway) == {0: (1, 0), 1: (2, 0), 2: (3, 0), 3: (3, 1), 4: (3, 2), 5: (3, 3), 6: (4, 0)}


def test_a_restart_changes_nothing() -> None:
    gateway = started(*plains(0, 100))
    before = numbers_of(gateway)
    gateway.restart()
    gateway.log.append(*plains(100, 3))
    gateway.read()
    assert numbers_of(gateway) == before | {100 + index: (100 + index, 0) for index in range(3)}


def test_each_number_is_found_from_a_place_near_it() -> None:
    """An entry lies before it, or the piece is recent."""
    gateway = started(*plains(0, 200))
    for number in range(200):
        place = gateway.index.find(number)
        assert place.number <= number
        assert place.position == place.number * MESSAGE_BYTES
        assert number - place.number <= 2 * SPACING.entry_bytes // MESSAGE_BYTES
    assert gateway.index.find(200) == gateway.index.end
    assert gateway.index.find(10**9) == gateway.index.end
    gateway.restart()
    assert 0 < 150 - gateway.index.find(150).number <= 2 * SPACING.entry_bytes // MESSAGE_BYTES


def test_pieces_behind_the_data_are_left_out_if_a_damaged_one_is_in_it() -> None:
    """Their bytes are not there. Only the damaged piece may end there."""
    gateway = started(*plains(0, 100))
    gateway.log.rot(MESSAGE_BYTES)
    numbered = gateway.index.numbered(Boundary(0, 0), gateway.log.read(0, 2 * MESSAGE_BYTES))
    assert [each.piece.kind for each in numbered] == [Kind.PLAIN, Kind.DAMAGED]


def test_retention_moves_the_log_start() -> None:
    gateway = started(*plains(0, 100))
    gateway.log.retain_from(41 * MESSAGE_BYTES)
    gateway.index.note_log_start(gateway.log.earliest())
    assert gateway.index.log_start() == Boundary(41 * MESSAGE_BYTES, 41)
    assert gateway.index.find(3) == gateway.index.log_start()
    assert list(numbers_of(gateway)) == list(range(41, 100))
    gateway.restart()
    assert gateway.index.log_start() == Boundary(41 * MESSAGE_BYTES, 41)


def test_a_lost_file_is_rebuilt_from_the_anchors() -> None:
    gateway = started(*plains(0, 100))
    before = numbers_of(gateway)
    lose_file(gateway)
    gateway.restart()
    assert numbers_of(gateway) == before
    assert gateway.index.generation == 0


def test_a_lost_file_is_rebuilt_backwards_where_the_front_was_removed() -> None:
    gateway = started(*plains(0, 100))
    lose_file(gateway)
    gateway.log.retain_from(30 * MESSAGE_BYTES)
    gateway.restart()
    assert gateway.index.log_start() == Boundary(30 * MESSAGE_BYTES, 30)
    assert list(numbers_of(gateway)) == list(range(30, 100))


def test_without_file_and_anchors_numbers_are_above_all_that_bytes_can_hold() -> None:
    gateway = started(log=ToyLog(1000))
    gateway.log.append(plain(1))
    gateway.read()
    assert list(numbers_of(gateway)) == [128_000]


def test_what_was_removed_before_it_was_taken_makes_a_jump() -> None:
    """Nobody knows how many messages it was."""
    gateway = started(*plains(0, 10))
    gateway.log.append(*plains(10, 10))
    gateway.log.retain_from(15 * MESSAGE_BYTES)
    gateway.restart()
    first = 10 + 128 * 5 * MESSAGE_BYTES
    assert gateway.index.log_start() == Boundary(15 * MESSAGE_BYTES, first)
    assert list(numbers_of(gateway)) == [first + index for index in range(5)]


@pytest.mark.parametrize("lost", ["nothing", "file"])
def test_a_jump_lasts(lost: str) -> None:
    gateway = started(*plains(0, 10))
    gateway.log.append(*plains(10, 10))
    gateway.log.retain_from(15 * MESSAGE_BYTES)
    gateway.restart()
    before = numbers_of(gateway)
    if lost == "file":
        lose_file(gateway)
    gateway.restart()
    assert numbers_of(gateway) == before


def test_a_topic_that_is_created_again_goes_on_above_all_numbers_that_were_given() -> None:
    gateway = started(*plains(0, 120))
    reserved = gateway.index.reserved
    assert reserved >= 120
    for life in range(1, 4):
        gateway.recreate()
        gateway.log.append(*plains(1000 * life, 3))
        gateway.restart()
        start = gateway.index.log_start()
        assert start == Boundary(0, gateway.floor)
        assert numbers_of(gateway) == {start.number + index: (1000 * life + index, 0) for index in range(3)}
        gateway.restart()
        assert gateway.index.log_start() == start


def test_reserved_numbers_that_are_released_leave_no_gap() -> None:
    gateway = started(*plains(0, 60))
    gateway.index.release()
    assert gateway.index.reserved == 60
    gateway.recreate()
    gateway.log.append(plain(1000))
    gateway.restart()
    assert numbers_of(gateway) == {60: (1000, 0)}


def test_a_topic_that_comes_back_after_a_release_reserves_numbers_again() -> None:
    gateway = started(*plains(0, 60))
    gateway.index.release()
    gateway.log.append(*plains(60, 3))
    gateway.read()
    anchored = gateway.anchors.load()
    assert anchored is not None
    assert anchored.reserved > gateway.index.end.number == 63


def test_nothing_is_released_while_messages_that_were_numbered_are_read_again() -> None:
    """The numbers of those messages are above the end that is known so far."""
    gateway = started(*plains(0, 60))
    lose_file(gateway)
    gateway.start()
    assert gateway.index.is_catching_up
    reserved = gateway.index.reserved
    gateway.index.release()
    assert gateway.index.reserved == reserved > 60


def test_a_log_that_starts_over_does_so_above_its_floor_too() -> None:
    """ZooKeeper was restored to an older copy: the anchors are of before the deletion that the floor is from."""
    gateway = started(*plains(0, 3))
    gateway.floor = 10_000
    gateway.restart()
    assert gateway.index.end.number == 3
    gateway.log.put_back(ToyLog())
    gateway.log.append(*plains(1000, 5))
    gateway.restart()
    assert gateway.index.log_start() == Boundary(0, gateway.floor)


def replaced(gateway: Gateway, how: str) -> None:
    older = ToyLog()
    if how == "put back and written on":
        older.append(*plains(0, 20), *plains(500, 50))
    elif how == "put back":
        older.append(*plains(0, 20))
    elif how == "created again":
        older.append(*plains(500, 60))
    elif how == "created again with other boundaries":
        older.append(*(wrapper(name, 2, size=7) for name in range(600, 660)))
    gateway.log.put_back(older)


REPLACEMENTS = [
    "put back",
    "put back and written on",
    "created again",
    "created again with other boundaries",
    "wiped",
]


@pytest.mark.parametrize("how", REPLACEMENTS)
@pytest.mark.parametrize("lost", ["nothing", "file", "anchors"])
def test_a_log_that_was_replaced_is_numbered_above_all_numbers_that_were_given(how: str, lost: str) -> None:
    gateway = started(*plains(0, 40))
    if lost == "file":
        gateway.restart()  # the anchors know the end as well then
        gateway.index.note_log_start(MESSAGE_BYTES)
        gateway.read()
        gateway.take()
        lose_file(gateway)
    elif lost == "anchors":
        gateway.anchors.text = None
    replaced(gateway, how)
    gateway.restart()
    assert gateway.index.generation == 1
    assert min(numbers_of(gateway), default=50) >= 50
    gateway.log.append(plain(700))
    gateway.read()
    before = numbers_of(gateway)
    assert before
    gateway.restart()
    assert numbers_of(gateway) == before


@pytest.mark.parametrize("how", REPLACEMENTS)
def test_a_log_that_is_replaced_while_the_broker_is_out_of_reach_is_noticed_when_it_is_back(how: str) -> None:
    gateway = started(*plains(0, 40))
    assert gateway.index.check()
    replaced(gateway, how)
    assert not gateway.index.check()
    gateway.read()
    assert min(numbers_of(gateway), default=50) >= 50


def test_what_was_taken_since_the_file_was_stored_is_compared_too() -> None:
    """A client has seen it: only the note of the tail tells that the log was replaced."""
    gateway = started()
    gateway.log.append(*plains(0, 5))
    gateway.read()
    older = ToyLog()
    older.put_back(gateway.log)
    gateway.log.append(plain(5))
    gateway.read()
    gateway.log.put_back(older)
    gateway.log.append(plain(500))
    gateway.restart()
    assert gateway.index.generation == 1
    assert list(numbers_of(gateway).values()) == [(name, 0) for name in (0, 1, 2, 3, 4, 500)]


def test_an_older_copy_of_the_anchors_takes_no_number_back() -> None:
    gateway = started(*plains(0, 10))
    older = gateway.anchors.text
    gateway.log.append(*plains(10, 90))
    gateway.read()
    gateway.anchors.text = older
    gateway.restart()
    assert gateway.anchors.load() is not None
    gateway.log.put_back(ToyLog())
    gateway.restart()
    assert gateway.index.end.number >= 100


def test_anchors_of_a_log_that_was_replaced_are_void() -> None:
    """ZooKeeper was put back to before that."""
    gateway = started(*plains(0, 100))
    older = gateway.anchors.text
    gateway.log.put_back(ToyLog())
    gateway.restart()
    gateway.log.append(*plains(500, 60))
    gateway.read()
    before = numbers_of(gateway)
    gateway.anchors.text = older
    gateway.restart()
    assert numbers_of(gateway) == before
    assert gateway.index.generation == 1


def test_a_damaged_message_takes_128_numbers_a_byte_and_its_repair_moves_nothing() -> None:
    gateway = started(plain(0))
    position = gateway.log.append_damaged(wrapper(1, 3))
    gateway.log.append(*plains(2, 20))
    gateway.read()
    before = numbers_of(gateway)
    first = 1 + 128 * (2 * MESSAGE_BYTES - position)
    assert list(before) == [0, *range(first, first + 20)]
    gateway.log.repair(position)
    repaired = {1: (1, 0), 2: (1, 1), 3: (1, 2)}
    assert numbers_of(gateway) == before | repaired
    gateway.restart()
    assert numbers_of(gateway) == before | repaired
    lose_file(gateway)
    gateway.restart()
    assert numbers_of(gateway) == before | repaired


def test_a_message_that_becomes_damaged_later_moves_nothing() -> None:
    gateway = started(*plains(0, 60))
    before = numbers_of(gateway)
    gateway.log.rot(31 * MESSAGE_BYTES)
    without = {number: name for number, name in before.items() if number != 31}
    assert numbers_of(gateway) == without
    gateway.restart()
    assert numbers_of(gateway) == without
    lose_file(gateway)
    gateway.restart()
    assert numbers_of(gateway) == without
    gateway.log.repair(31 * MESSAGE_BYTES)
    gateway.restart()
    assert numbers_of(gateway) == before
    assert gateway.index.generation == 0


def test_between_two_messages_that_become_damaged_nothing_has_a_known_number() -> None:
    gateway = started(*plains(0, 60))
    gateway.log.rot(31 * MESSAGE_BYTES)
    gateway.log.rot(33 * MESSAGE_BYTES)
    assert list(numbers_of(gateway)) in (
        [number for number in range(60) if number not in {31, 32, 33}],
        [number for number in range(60) if number not in {31, 33}],
    )


def test_damage_near_the_end_is_told_from_a_log_that_was_replaced() -> None:
    gateway = started(*plains(0, 60))
    gateway.log.rot(57 * MESSAGE_BYTES)
    gateway.restart()
    assert gateway.index.generation == 0
    assert list(numbers_of(gateway)) == [number for number in range(60) if number != 57]


def test_an_overfull_set_takes_128_numbers_a_byte() -> None:
    gateway = started(plain(0), overfull(1), plain(2))
    pieces = gateway.index.numbered(Boundary(0, 0), gateway.log.data)
    assert [each.piece.kind for each in pieces] == [Kind.PLAIN, Kind.OVERFULL, Kind.PLAIN]
    assert list(numbers_of(gateway)) == [0, 1 + 128 * MESSAGE_BYTES]


def test_a_repeat_keeps_its_numbers_and_is_no_message() -> None:
    sent = from_sender(1, 0)
    gateway = started(sent, plain(2), sent, plain(3), from_sender(4, 3))
    assert list(numbers_of(gateway)) == [0, 1, 2, 3, 7, 8, 9, 10]
    gateway.log.append(*plains(5, 100))
    gateway.read()
    gateway.restart()
    assert list(numbers_of(gateway))[:8] == [0, 1, 2, 3, 7, 8, 9, 10]


def test_a_repeat_is_known_by_its_mark_too() -> None:
    sent = wrapper(1, 3, Origin(-1, -1, -1, 3, b"x" * 8))
    other = wrapper(2, 3, Origin(-1, -1, -1, 3, b"y" * 8))
    gateway = started(sent, other, sent)
    assert list(numbers_of(gateway)) == [0, 1, 2, 3, 4, 5]


def test_a_repeat_that_comes_after_a_restart_is_one() -> None:
    sent = from_sender(1, 0)
    gateway = started(sent, *plains(2, 50))
    gateway.restart()
    gateway.log.append(sent)
    gateway.read()
    assert len(numbers_of(gateway)) == 53
    assert gateway.index.end.number == 56


def test_less_than_a_message_is_not_taken() -> None:
    gateway = started(plain(0))
    message = wrapper(1, 1, size=300)
    assert gateway.index.take(message[:50]) == []
    assert gateway.index.take(b"") == []
    gateway.log.append(message)
    gateway.read(400)
    assert gateway.index.end.number == 2


def test_a_lost_boundary_is_told_once_everything_before_it_was_taken() -> None:
    gateway = started()
    gateway.log.append(plain(0), b"\xff" * 20)
    assert gateway.take(1000)
    assert gateway.index.end == Boundary(MESSAGE_BYTES, 1)
    with pytest.raises(LostBoundaryError):
        gateway.take(1000)


def test_no_number_is_given_before_it_is_reserved() -> None:
    gateway = started(*plains(0, 40))
    gateway.log.append(*plains(40, 120))
    for index in range(120):
        gateway.steps.failing = index % 3 == 0
        with contextlib.suppress(OSError):
            gateway.take(MESSAGE_BYTES)
        anchored, stored = gateway.anchors.load(), gateway.file.load()
        assert anchored is not None
        assert stored is not None
        assert gateway.index.end.number <= min(anchored.reserved, stored.reserved)
    gateway.steps.failing = False
    gateway.read()
    assert list(numbers_of(gateway)) == list(range(160))


def _life(gateway: Gateway) -> None:
    """Go through everything that is stored in steps."""
    gateway.start()
    gateway.log.append(*plains(0, 30))
    gateway.read()
    gateway.log.append_damaged(wrapper(30, 2))
    gateway.log.append(*plains(31, 30))
    gateway.read()
    gateway.log.append(*plains(100, 30))
    gateway.log.retain_from(gateway.log.starts[75])
    gateway.restart()
    gateway.log.put_back(ToyLog())
    gateway.log.append(*plains(200, 30))
    gateway.restart()
    gateway.log.append(*plains(230, 30))
    gateway.read()


@pytest.mark.parametrize("lost", ["nothing", "file", "anchors"])
def test_a_kill_at_any_step_gives_no_number_twice(lost: str) -> None:
    whole = Gateway()
    _life(whole)
    assert whole.steps.count > 40
    for step in range(1, whole.steps.count + 1):
        gateway = Gateway()
        gateway.steps.kill_at = step
        with pytest.raises(KilledError):
            _life(gateway)
        if lost == "file":
            lose_file(gateway)
        elif lost == "anchors":
            gateway.anchors.text = None
        gateway.restart()
        before = numbers_of(gateway)
        gateway.log.append(*plains(300, 30))
        gateway.read()
        gateway.restart()
        assert numbers_of(gateway).items() >= before.items()
        gateway.log.put_back(ToyLog())
        gateway.log.append(*plains(400, 70))
        gateway.restart()
        numbers_of(gateway)


def test_without_the_file_numbers_begin_above_what_zookeeper_has_reserved() -> None:
    """The last numbers that were given lie behind the last anchor, and the log was replaced."""
    gateway = started(*plains(0, 10))
    gateway.index.persist()
    gateway.log.append(*plains(10, 30))
    gateway.read()
    lose_file(gateway)
    gateway.log.put_back(ToyLog())
    gateway.log.append(*plains(100, 40))
    gateway.restart()
    assert min(numbers_of(gateway)) >= 50


def test_a_repair_right_after_a_kill_moves_nothing() -> None:
    """Nothing but the damage makes the index store anything here."""
    gateway = Gateway(spacing=Spacing())
    gateway.start()
    position = gateway.log.append_damaged(wrapper(1, 3))
    gateway.log.append(*plains(2, 20))
    gateway.read()
    before = numbers_of(gateway)
    gateway.log.repair(position)
    gateway.restart()
    assert numbers_of(gateway).items() >= before.items()


def test_an_old_copy_of_the_file_does_not_count_once_the_numbering_started_over() -> None:
    gateway = started(*plains(0, 40))
    older = gateway.file.stored, gateway.file.tail
    gateway.log.put_back(ToyLog())
    gateway.log.append(*plains(500, 40))
    gateway.restart()
    before = numbers_of(gateway)
    gateway.file.stored, gateway.file.tail = older
    gateway.restart()
    assert numbers_of(gateway) == before
    assert gateway.index.generation == 1


def test_without_the_file_what_lies_behind_damage_gets_numbers_that_were_never_given() -> None:
    """How many messages the damaged one held is nowhere: 128 a byte may be numbers of messages behind it."""
    gateway = started()
    gateway.log.append(wrapper(0, 30), wrapper(1, 9), overfull(2), *plains(3, 20))
    gateway.read()
    highest = gateway.index.end.number
    gateway.anchors.text = None
    gateway.index.open()  # stores the places that are known
    lose_file(gateway)
    anchored = gateway.anchors.load()
    assert anchored is not None
    gateway.anchors.text = anchored._replace(places=anchored.places[:1], tail=Tail(0, 0), senders=None).text()
    gateway.log.rot(MESSAGE_BYTES)
    gateway.seen.names.pop(31, None)
    gateway.start()
    numbered = gateway.index.take(gateway.log.data)
    assert [each.first_number for each in numbered][:2] == [0, 30]
    assert all(each.first_number >= highest for each in numbered[2:])


def test_the_boundary_at_a_position_is_found() -> None:
    """That of a segment, or of a 0.7 consumer's offset."""
    gateway = started(*plains(0, 100))
    for index in range(101):
        assert gateway.index.place_at(index * MESSAGE_BYTES) == Boundary(index * MESSAGE_BYTES, index)
    assert gateway.index.place_at(50 * MESSAGE_BYTES + 3) == Boundary(50 * MESSAGE_BYTES, 50)
    assert gateway.index.place_at(10**9) == gateway.index.end
    gateway.log.retain_from(40 * MESSAGE_BYTES)
    gateway.index.note_log_start(40 * MESSAGE_BYTES)
    assert gateway.index.place_at(0) == gateway.index.log_start()


def test_what_was_persisted_is_not_counted_again() -> None:
    """Another gateway that takes over finds the end in ZooKeeper."""
    gateway = started(*plains(0, 40))
    gateway.log.append(plain(40))
    gateway.read()
    gateway.index.persist()
    count = gateway.steps.count
    gateway.index.persist()
    assert gateway.steps.count == count
    gateway.start()
    assert not gateway.index.is_catching_up
    lose_file(gateway)
    gateway.start()
    assert gateway.index.is_catching_up
    gateway.read()
    assert gateway.index.end == Boundary(41 * MESSAGE_BYTES, 41)


def test_without_the_file_the_numbering_goes_on_where_zookeeper_was_told_last() -> None:
    """A gateway that takes over reads only what came since, and knows repeats of what came before."""
    sent = from_sender(1, 0)
    gateway = started(sent, sent, *plains(2, 40))
    lose_file(gateway)
    gateway.start()
    assert gateway.index.end.position > gateway.log.latest() / 2
    gateway.log.append(sent, plain(50))
    gateway.read()
    assert list(numbers_of(gateway)) == [0, 1, 2, *range(6, 46), 49]


def test_senders_that_are_too_many_for_a_znode_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is read from its start then."""
    monkeypatch.setattr(stores, "MOST_CHARACTERS", 100)
    sent = from_sender(1, 0)
    gateway = started(sent, *plains(2, 40))
    lose_file(gateway)
    gateway.start()
    assert gateway.index.end == Boundary(0, 0)
    gateway.log.append(sent)
    gateway.read()
    assert len(numbers_of(gateway)) == 43


DEFECTS = [defect for defect in read_defects("gateway_numbering").values() if "file" not in defect.shows]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect) -> None:
    """The scenario passes without it, and fails with it."""
    check: Callable[..., None] = globals()[defect.shows["noticed_by"]]
    with planted(defect), pytest.raises((AssertionError, pytest.fail.Exception)):
        check(*defect.shows.get("with", []))
