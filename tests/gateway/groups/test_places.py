"""CommitPlaces in a log that numbers are committed as: what a group goes on with is what it has not confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gevent
import pytest

from kafka2011.errors import BrokerConnectionError
from kafka2011.gateway.groups.places import CommitPlace, CommitPlaces
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from tests.gateway.test_tail import Followed
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed
from tests.support.record_batches import batches_in, read_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.gateway.recent_bytes import RecentBytes
    from zk.cluster import TopicPartition
DEADLINE_S = 20.0
PAYLOAD = b"one message of the log"
SIZE = len(bytes(MessageSet([PAYLOAD])))


class Log(Followed):
    """A log that is followed, whose fetches from the broker are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.fetches: list[tuple[int, int]] = []
        fetch = self.broker.fetch

        def counted(where: TopicPartition, position: int, size: int) -> bytes:
            self.fetches.append((position, size))
            return fetch(where, position, size)

        links: Any = self.broker
        links.fetch = counted
        self.places = CommitPlaces()

    def append(self, *sets: tuple[int, bool]) -> None:
        """Append sets of these numbers of messages, each one wrapper or plain."""
        for messages, is_wrapper in sets:
            payloads = [PAYLOAD] * messages
            self.broker.append(bytes(MessageSet(payloads, Codec.GZIP if is_wrapper else Codec.NONE)))
        assert self.end() is not None

    def forget_recent(self) -> None:
        """Forget the newest bytes, as when many more have come."""
        recent: RecentBytes = vars(self.log)["_recent"]
        recent.clear()

    def place_of(self, number: int) -> CommitPlace:
        served: Any = self
        with gevent.Timeout(DEADLINE_S):
            found, place = self.places.place_of(served, number)
        assert found == max(min(number, self.log.index().end.number), self.log.index().log_start().number)
        return place

    def number_of(self, position: int, within: int = 0) -> int | None:
        served: Any = self
        with gevent.Timeout(DEADLINE_S):
            return self.places.number_of(served, CommitPlace(position, within))


def ends_in(records: bytes) -> list[int]:
    """Return the number behind each batch."""
    batches = [read_batch(data) for data in batches_in(records)]
    return [batch.base_offset + batch.last_delta + 1 for batch in batches]


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.tail.stop()


MIXED = (3, False), (5, True), (1, True), (2, False), (4, True)
"""Numbers 0 to 2, 3 to 7, 8, 9 and 10, 11 to 14."""


@pytest.mark.parametrize("is_recent", [True, False])
def test_each_number_has_a_place_and_is_found_there_again(log: Log, is_recent: bool) -> None:
    """Plain messages have a position each, those of a wrapper that of the wrapper."""
    log.append(*MIXED)
    if not is_recent:
        log.forget_recent()
    places = [log.place_of(number) for number in range(16)]
    assert [log.number_of(*place) for place in places] == list(range(16))
    wrapper, single = places[3].position, places[8].position
    assert places[:3] == [CommitPlace(SIZE * number) for number in range(3)]
    assert places[3:8] == [CommitPlace(wrapper, within) for within in range(5)]
    assert places[8:11] == [
        CommitPlace(single),
        CommitPlace(places[9].position),
        CommitPlace(places[9].position + SIZE),
    ]
    assert places[15] == CommitPlace(len(log.broker.data))


def test_places_of_recent_messages_need_no_fetch(log: Log) -> None:
    log.append(*MIXED)
    log.fetches.clear()
    assert [log.number_of(*log.place_of(number)) for number in range(16)] == list(range(16))
    assert log.fetches == []


def test_places_of_older_messages_that_lie_together_need_one_fetch(log: Log) -> None:
    """However many of them are committed one after another."""
    log.append((1000, False), (10, True))
    log.forget_recent()
    log.fetches.clear()
    for number in range(0, 1010, 7):
        assert log.place_of(number) == CommitPlace(
            *(divmod(number * SIZE, 1) if number < 1000 else (1000 * SIZE, number - 1000))
        )
    assert len(log.fetches) == 1


def test_where_a_reader_was_told_to_go_on_is_known(log: Log) -> None:
    """Also once it has gone on from there: it commits later than it reads."""
    log.append((60_000, False))
    log.forget_recent()
    most = 1024 * 1024
    read = ends_in(log.log.records(0, most))
    assert read[-1] < 60_000
    assert log.log.records(read[-1], most)
    log.fetches.clear()
    assert log.place_of(read[-1]) == CommitPlace(read[-1] * SIZE)
    assert log.fetches == []


def test_what_clients_were_given_has_a_place_without_the_broker(log: Log) -> None:
    """Plain messages, and those within wrappers; nothing is known of what nobody has read."""
    log.append(*MIXED)
    expected = [log.place_of(number) for number in range(16)]
    places = log.places
    assert [places.known_place_of(log.log, number) for number in range(15)] == [None] * 15
    log.log.records(0, 1024 * 1024)
    log.tail.stop()
    log.forget_recent()
    log.fetches.clear()
    assert [places.known_place_of(log.log, number) for number in range(16)] == expected
    assert places.known_place_of(log.log, 16) is None
    assert log.fetches == []


def test_within_a_long_run_the_known_place_is_before_the_message(log: Log) -> None:
    """Its bytes are not kept. A message is read again, and none is skipped."""
    log.append((60_000, False), (5, True))
    log.forget_recent()
    end = ends_in(log.log.records(0, 1024 * 1024))[-1]
    for number in range(0, end + 1, 997):
        place = log.places.known_place_of(log.log, number)
        assert place is not None
        assert number * SIZE - 2 * 64 * 1024 < place.position <= number * SIZE
        assert place.within == place.position % SIZE == 0
    assert log.places.known_place_of(log.log, end) == CommitPlace(end * SIZE)


def test_places_of_a_log_that_is_gone_are_forgotten(log: Log) -> None:
    log.append(*MIXED)
    log.log.records(0, 1024 * 1024)
    assert log.places.known_place_of(log.log, 5) is not None
    log.broker.data = bytes(MessageSet([PAYLOAD + b"!"] * 40))
    log.log.check()
    assert log.places.known_place_of(log.log, 5) is None


def test_a_position_between_boundaries_falls_to_the_one_before(log: Log) -> None:
    """So a message is read again, and none is skipped; what a note says of another place is nothing here."""
    log.append(*MIXED)
    wrapper = log.place_of(3).position
    assert log.number_of(SIZE + 1) == 1
    assert log.number_of(2 * SIZE - 1, 7) == 1
    assert log.number_of(wrapper + 1, 2) == 3
    log.forget_recent()
    assert log.number_of(SIZE + 1) == 1
    assert log.number_of(wrapper + 1, 2) == 3


def test_a_note_counts_no_further_than_its_wrapper(log: Log) -> None:
    """It may be one of a log that was put back; and a plain message has nothing within it."""
    log.append(*MIXED)
    assert log.number_of(log.place_of(3).position, 99) == 8
    assert log.number_of(0, 2) == 0
    assert log.number_of(len(log.broker.data), 2) == 15


def test_below_the_start_is_the_start(log: Log) -> None:
    """Retention has removed what was to be read next."""
    log.append((10, False))
    log.broker.data, log.broker.start = log.broker.data[4 * SIZE :], 4 * SIZE
    log.log.refresh_start()
    assert log.place_of(2) == CommitPlace(4 * SIZE)
    assert log.number_of(2 * SIZE) == 4
    assert log.number_of(4 * SIZE) == 4


def test_above_the_end_is_nothing(log: Log) -> None:
    """The nearest place of a number that no message has is the end; a position behind the end is of another log."""
    log.append((10, False))
    for number in (10, 11, 2**63 - 1):
        assert log.place_of(number) == CommitPlace(10 * SIZE)
    assert log.number_of(10 * SIZE) == 10
    assert log.number_of(10 * SIZE + 1) is None


def test_the_end_is_looked_up_before_anything_is_above_it(log: Log) -> None:
    """Nobody has followed this log: others have written to it, and committed."""
    assert log.end() == 0
    log.log.wanted_until_s = 0.0
    log.broker.append(bytes(MessageSet([PAYLOAD])))
    with gevent.Timeout(DEADLINE_S):
        while log.log.is_current:
            gevent.sleep(0)
    log.broker.append(bytes(MessageSet([PAYLOAD] * 9)))
    assert log.number_of(7 * SIZE) == 7
    assert log.place_of(9) == CommitPlace(9 * SIZE)


def test_a_broker_that_is_away_is_no_end_of_the_log(log: Log) -> None:
    log.append((10, False))
    log.tail.stop()
    for find in (log.place_of, lambda number: log.number_of(number * SIZE)):
        with pytest.raises(BrokerConnectionError):
            find(11)


def test_a_number_that_was_left_out_by_a_jump_is_the_next_message(log: Log) -> None:
    """Nobody knows how many messages were removed, so numbers jump."""
    log.append((10, False))
    removed = 20 * SIZE
    log.broker.data, log.broker.start = bytes(MessageSet([PAYLOAD] * 3)), removed
    log.log.check()
    first = log.log.index().log_start().number
    assert first > 10
    log.append((1, True))
    assert log.place_of(10) == CommitPlace(removed)
    assert log.number_of(removed + SIZE) == first + 1


DEFECTS = read_defects("gateway_group_places").values()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test that it names fails with it."""
    monkeypatch.setitem(globals(), "DEADLINE_S", 0.7)
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
