"""A record that has a timestamp is found by it, whatever times segments have, and whoever wrote the index."""

from __future__ import annotations

import time

import pytest

from kafka2011.gateway.time_search import UnfinishedSearchError, largest_time, number_at_time
from kafka2011.message.message_set import MessageSet
from tests.gateway.test_appends import Partition, eventually
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed


def produced(partition: Partition, *timestamps: int, value: bytes = b"today") -> None:
    """Send each record alone."""
    for timestamp in timestamps:
        partition.sent(value, timestamp=timestamp)


def produced_by_0_7(partition: Partition, messages: int = 1) -> None:
    end = partition.log.index().end.number
    partition.broker.append(bytes(MessageSet([b"2011"] * messages)))

    def is_taken() -> bool:
        partition.tail.want(partition.log)
        return partition.log.index().end.number == end + messages

    eventually(is_taken)


def found(partition: Partition, *times: int, ends_s: float = 2**62) -> list[tuple[int, int] | None]:
    return [number_at_time(partition.log, time_ms, ends_s) for time_ms in times]


def largest(partition: Partition) -> tuple[int, int] | None:
    return largest_time(partition.log, 2**62)


def test_a_record_is_found_by_its_time_also_if_its_segment_is_older(partition: Partition) -> None:
    """Clocks differ, and the times of files are milliseconds late."""
    partition.broker.segments = [(0, 0)]
    produced(partition, 1_000, 3_000, 2_000, 4_000)
    assert found(partition, 0, 1_000, 2_000, 3_001, 4_000) == [
        (0, 1_000),
        (0, 1_000),
        (1, 3_000),
        (3, 4_000),
        (3, 4_000),
    ]
    assert found(partition, 4_001, 2**62) == [None, None]


def test_one_stretch_is_read(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    produced(partition, *range(1_000, 1_080), value=b"v" * 100_000)
    reads: list[int] = []
    read = partition.log.read

    def note(position: int, max_bytes: int) -> bytes:
        data = read(position, max_bytes)
        reads.append(len(data))
        return data

    monkeypatch.setattr(partition.log, "read", note)
    assert found(partition, 1_000, 1_040, 1_079, 1_080) == [(0, 1_000), (40, 1_040), (79, 1_079), None]
    assert sum(reads) < 6 << 20
    assert largest(partition) == (79, 1_079)


def test_messages_of_0_7_have_the_time_of_their_segment(partition: Partition) -> None:
    produced_by_0_7(partition, 3)
    boundary = partition.log.index().end.position
    produced_by_0_7(partition, 2)
    partition.broker.segments = [(0, 1_000), (boundary, 2_000)]
    assert found(partition, 0, 999, 1_000, 1_999, 2_000) == [(0, -1), (0, -1), (3, -1), (3, -1), None]
    assert largest(partition) is None


def test_a_message_of_0_7_ends_the_search_unless_a_record_has_just_this_time(partition: Partition) -> None:
    """Whoever goes back to before the first record of today would otherwise miss what 0.7 wrote since."""
    produced(partition, 1_000)
    produced_by_0_7(partition, 2)
    produced(partition, 2_000)
    produced_by_0_7(partition)
    partition.broker.segments = [(0, 9_000)]
    assert found(partition, 500, 1_000, 1_500, 2_000, 2_500, 9_000) == [
        (0, 1_000),
        (0, 1_000),
        (1, -1),
        (3, 2_000),
        (1, -1),
        None,
    ]
    partition.broker.segments = [(0, 1_200)]
    assert found(partition, 1_500, 2_500) == [(3, 2_000), None]


def test_the_first_of_several_records_with_the_largest_timestamp_is_found(partition: Partition) -> None:
    assert largest(partition) is None
    produced(partition, 0, 500, 300, 500, 400)
    assert largest(partition) == (1, 500)
    produced_by_0_7(partition)
    assert largest(partition) == (1, 500)


def test_an_index_of_an_older_gateway_is_read_once_and_each_search_goes_on(partition: Partition) -> None:
    """It has no timestamps."""
    produced(partition, *range(1_000, 1_040), value=b"v" * 200_000)
    partition.log.store()
    stored = partition.file.stored
    assert stored is not None
    partition.file.stored = stored._replace(times=None)
    partition.restart()
    produced(partition, 1_040)

    def is_found() -> bool:
        try:
            return found(partition, 1_030, ends_s=time.monotonic() - 1) == [(30, 1_030)]
        except UnfinishedSearchError:
            return False

    assert [is_found() for _ in range(2)] == [False, False]
    assert found(partition, 1_002, ends_s=time.monotonic() - 1) == [(2, 1_002)]
    assert any(is_found() for _ in range(50))
    assert largest(partition) == (40, 1_040)
    assert partition.log.index().times.reaching(2**63 - 1) is None


@pytest.mark.parametrize("lost", ["nothing", "file"])
def test_a_new_gateway_knows_the_times(partition: Partition, lost: str) -> None:
    produced(partition, *range(1_000, 1_010))
    partition.log.store()
    if lost == "file":
        partition.file.stored = partition.file.tail = None
    partition.restart()
    assert partition.log.index().times.reaching(2**63 - 1) is None
    assert found(partition, 1_005) == [(5, 1_005)]


def test_a_repeat_is_not_found(partition: Partition) -> None:
    """It is served without records, so a reader would find nothing there."""
    produced(partition, 1_000)
    partition.broker.append(partition.broker.appends[0])
    eventually(lambda: partition.tail.want(partition.log) or partition.log.index().end.number == 2)  # type: ignore[func-returns-value]
    partition.broker.data, partition.broker.start = (
        partition.broker.data[len(partition.broker.appends[0]) :],
        len(partition.broker.appends[0]),
    )
    partition.log.refresh_start()
    assert found(partition, 1_000) == [None]


DEFECTS = [
    defect for defect in read_defects("gateway_server").values() if defect.shows.get("file") == "test_time_search"
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest) -> None:
    """The test that it names fails with it."""
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
