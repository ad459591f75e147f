"""How far micro-batches go, over a cluster in memory, as Spark asks for it."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.message import encode
from kafka2011.spark.errors import BrokerAwayError, DataLossError
from kafka2011.spark.offsets import Nested, flatten
from kafka2011.spark.options import StreamOptions
from kafka2011.spark.stream import StreamPlanner
from tests.support.clocks import ManualClock
from tests.support.cluster_in_memory import ClusterInMemory
from tests.support.logs_in_memory import LogInMemory
from zk.cluster import TopicPartition

ONE, TWO = TopicPartition("views", 0, 0), TopicPartition("views", 1, 0)
MESSAGE = encode(b"x" * 90)
SEGMENT = MESSAGE * 10  # 1,000 bytes


class Clock(ManualClock):
    """Seconds that pass between questions, more than the planner remembers anything for."""

    def monotonic_s(self) -> float:
        self.now_s += 2.0
        return self.now_s


@pytest.fixture
def cluster() -> ClusterInMemory:
    return ClusterInMemory({ONE: LogInMemory([SEGMENT] * 2), TWO: LogInMemory([SEGMENT])})


def planner(cluster: ClusterInMemory, **options: str) -> StreamPlanner:
    given_options = {"zk.connect": "localhost:1", "subscribe": "views", "startingOffsets": "earliest", **options}
    read = StreamOptions.from_options(given_options)
    return StreamPlanner(read, cluster.lookup(read), Clock())


def ranges(one: StreamPlanner, start: Nested, end: Nested) -> dict[TopicPartition, tuple[int, int]]:
    tasks = [each.offset_range for each in one.tasks(start, end)]
    return {each.topic_partition: (each.start, each.end) for each in tasks}


def test_a_stream_reads_all_and_then_what_comes(cluster: ClusterInMemory) -> None:
    """Each micro-batch begins where the one before ended."""
    one = planner(cluster)
    start = one.initial()
    assert start == {"views": {"0-0": 0, "1-0": 0}}
    end = one.end(start, None)
    assert end == {"views": {"0-0": 2000, "1-0": 1000}}
    assert ranges(one, start, end) == {ONE: (0, 2000), TWO: (0, 1000)}
    assert one.end(end, None) == end
    cluster.logs[TWO].data += MESSAGE
    following = one.end(end, None)
    assert ranges(one, end, following) == {TWO: (1000, 1100)}
    assert one.latest() == {"views": {"0-0": 2000, "1-0": 1100}}


def test_latest_is_written_down_before_it_is_used(cluster: ClusterInMemory) -> None:
    """The first micro-batch is empty, so a restart begins where the query did, not at what is latest by then."""
    one = planner(cluster, startingOffsets="latest")
    start = one.initial()
    for log in cluster.logs.values():
        log.data += MESSAGE
    assert one.initial() == start == {"views": {"0-0": 2000, "1-0": 1000}}
    assert one.end(start, None) == start
    assert one.initial() == start
    assert one.end(start, None) == {"views": {"0-0": 2100, "1-0": 1100}}
    restarted = planner(cluster, startingOffsets="latest")
    assert restarted.initial() == {"views": {"0-0": 2100, "1-0": 1100}}
    assert restarted.tasks(restarted.initial(), start) == []


def test_a_new_partition_first_says_where_it_begins(cluster: ClusterInMemory) -> None:
    """It enters the checkpoint before its rows are read."""
    one = planner(cluster)
    before = one.end(one.initial(), None)
    cluster.logs[TopicPartition("views", 2, 0)] = LogInMemory([SEGMENT], 700)
    entered = one.end(before, None)
    assert entered == {"views": {"0-0": 2000, "1-0": 1000, "2-0": 700}}
    assert one.tasks(before, entered) == []
    assert ranges(one, entered, one.end(entered, None)) == {TopicPartition("views", 2, 0): (700, 1700)}


def test_a_stream_can_begin_before_its_topic(cluster: ClusterInMemory) -> None:
    """It waits for it."""
    logs, cluster.logs = cluster.logs, {}
    one = planner(cluster)
    start = one.initial()
    assert one.end(start, None) == start == {}
    cluster.logs = logs
    entered = one.end(start, None)
    assert one.end(entered, None) == {"views": {"0-0": 2000, "1-0": 1000}}


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.integers(1, 3000), st.data())
def test_admission_ends_at_boundaries_and_reaches_the_end(
    sizes: list[int],
    max_bytes: int,
    data: st.DataObject,
) -> None:
    """Each micro-batch has at most the limit, or one message a partition; every one makes progress in each."""
    messages = [encode(b"x" * size) for size in sizes]
    cut = data.draw(st.integers(0, len(messages)))
    logs = {
        ONE: LogInMemory([b"".join(part) for part in (messages[:cut], messages[cut:]) if part]),
        TWO: LogInMemory([b"".join(messages)]),
    }
    one = planner(ClusterInMemory(logs))
    start, ends = one.initial(), {each: log.end for each, log in logs.items()}
    boundaries = {0}
    for message in messages:
        boundaries.add(max(boundaries) + len(message))
    while flatten(start) != ends:
        end = one.end(start, max_bytes)
        steps = {each: offset - flatten(start)[each] for each, offset in flatten(end).items()}
        assert set(flatten(end).values()) <= boundaries
        assert all(step > 0 or flatten(start)[each] == ends[each] for each, step in steps.items())
        assert sum(steps.values()) <= max_bytes + 2 * max(map(len, messages))
        start = end


def test_admission_scans_no_more_than_it_admits(cluster: ClusterInMemory) -> None:
    """From the last segment start before the limit on."""
    log = cluster.logs[ONE]
    one = planner(cluster)
    start = one.initial()
    log.fetched_bytes = 0
    assert flatten(one.end(start, 2000))[ONE] == 1300
    assert log.fetched_bytes <= 340


def test_admission_gets_past_lengths_that_make_no_sense(cluster: ClusterInMemory) -> None:
    """It goes to the next segment, and leaves it to the tasks to say what is wrong."""
    cluster.logs[ONE].data[:4] = (2**30).to_bytes(4)
    one = planner(cluster)
    assert flatten(one.end(one.initial(), 100))[ONE] == 1000
    cluster.logs[ONE].data[:4] = b"\0\0\0\0"
    assert flatten(one.end(one.initial(), 100))[ONE] == 1000


def test_available_now_stops_at_what_was_there(cluster: ClusterInMemory) -> None:
    """What comes meanwhile, in old or new partitions, is not read."""
    one = planner(cluster)
    one.stop_at_latest()
    start = one.initial()
    cluster.logs[ONE].data += SEGMENT
    cluster.logs[TopicPartition("views", 2, 0)] = LogInMemory([SEGMENT])
    end = one.end(start, None)
    assert end == {"views": {"0-0": 2000, "1-0": 1000}}
    assert one.end(end, None) == end


def test_available_now_waits_for_a_partition_of_the_checkpoint(cluster: ClusterInMemory) -> None:
    """Its broker is away when the query is started again, and comes back."""
    one = planner(cluster)
    cluster.away = {1}
    one.stop_at_latest()
    cluster.on_sleep = cluster.away.clear
    start = {"views": {"0-0": 0, "1-0": 500}}
    assert one.end(start, None) == {"views": {"0-0": 2000, "1-0": 1000}}
    assert cluster.slept_s


def test_others_go_on_while_a_broker_is_away(cluster: ClusterInMemory) -> None:
    """Its partitions stay where they are, until the wait is over and the query stops with a clear error."""
    one = planner(cluster, **{"fetchOffset.numRetries": "60"})
    end = one.end(one.initial(), None)
    cluster.away = {1}
    cluster.logs[ONE].data += MESSAGE
    cluster.logs[TWO].data += MESSAGE
    following = one.end(end, None)
    assert following == {"views": {"0-0": 2100, "1-0": 1000}}
    assert [one.end(following, None) for _ in range(5)] == [following] * 5
    with pytest.raises(BrokerAwayError, match="the broker of views/1-0 was away for 60000 ms"):
        deque((one.end(following, None) for _ in range(100)), maxlen=0)


def test_a_broker_that_comes_back_is_read_on(cluster: ClusterInMemory) -> None:
    """From where it was."""
    one = planner(cluster)
    end = one.end(one.initial(), None)
    cluster.away = {1}
    cluster.logs[TWO].data += MESSAGE
    assert one.end(end, None) == end
    cluster.away.clear()
    assert one.end(end, None) == {"views": {"0-0": 2000, "1-0": 1100}}


def test_a_log_that_got_shorter_is_lost_data(cluster: ClusterInMemory) -> None:
    """The query stops, or goes on from where the log begins anew."""
    strict, lenient = planner(cluster), planner(cluster, failOnDataLoss="false")
    end = strict.end(strict.initial(), None)
    cluster.logs[TWO] = LogInMemory([MESSAGE])
    with pytest.raises(DataLossError, match="views/1-0 ends at 100, but was read up to 1000"):
        strict.end(end, None)
    following = lenient.end(end, None)
    assert following == {"views": {"0-0": 2000, "1-0": 100}}
    assert lenient.tasks(end, following) == []
    cluster.logs[TWO].data += MESSAGE
    assert ranges(lenient, following, lenient.end(following, None)) == {TWO: (100, 200)}


def test_retention_that_passes_a_limited_query_is_lost_data(cluster: ClusterInMemory) -> None:
    """Found while scanning for a boundary."""
    strict, lenient = planner(cluster), planner(cluster, failOnDataLoss="false")
    start = strict.initial()
    cluster.logs[ONE].delete_until(1000)
    with pytest.raises(DataLossError, match="views/0-0 was read up to 0, but begins at 1000 now"):
        strict.end(start, 600)
    assert flatten(lenient.end(start, 600))[ONE] == 1400
