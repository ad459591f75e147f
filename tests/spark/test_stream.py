"""How far micro-batches go, over a cluster in memory, as Spark asks for it."""

from __future__ import annotations

import json
import threading
from collections import deque
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.errors import ConfigError, KafkaError
from kafka2011.message.message_set import encode
from kafka2011.spark.errors import BrokerAwayError, DataLossError
from kafka2011.spark.log_check import CHECKED_BYTES
from kafka2011.spark.offset_ranges import MARK, NEW_QUERY, Nested, flatten
from kafka2011.spark.options import StreamOptions
from kafka2011.spark.stream_reader import StreamPlanner
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
    return StreamPlanner(read, cluster.lookup(read), Clock(wall_lead_s=1_000_000))


def begin(one: StreamPlanner) -> Nested:
    """Return what the first micro-batch, which has no rows, writes to the checkpoint."""
    start = one.end(NEW_QUERY, None)
    assert one.tasks(NEW_QUERY, start) == []
    return start


def offsets(nested: Nested) -> Nested:
    """Return offsets without the checks beside them."""
    return {topic: partitions for topic, partitions in nested.items() if topic != MARK}


def other_segment(seed: bytes) -> bytes:
    """Return a segment of 1,000 bytes whose messages are like no others."""
    return encode(seed * 90) * 10


def ranges(one: StreamPlanner, start: Nested, end: Nested) -> dict[TopicPartition, tuple[int, int]]:
    tasks = [each.offset_range for each in one.tasks(start, end)]
    return {each.topic_partition: (each.start, each.end) for each in tasks}


def test_a_stream_reads_all_and_then_what_comes(cluster: ClusterInMemory) -> None:
    """Each micro-batch begins where the one before ended."""
    one = planner(cluster)
    start = begin(one)
    assert start == {"views": {"0-0": 0, "1-0": 0}}
    end = one.end(start, None)
    assert offsets(end) == {"views": {"0-0": 2000, "1-0": 1000}}
    assert ranges(one, start, end) == {ONE: (0, 2000), TWO: (0, 1000)}
    assert one.end(end, None) == end
    cluster.logs[TWO].data += MESSAGE
    following = one.end(end, None)
    assert ranges(one, end, following) == {TWO: (1000, 1100)}
    assert one.latest() == {"views": {"0-0": 2000, "1-0": 1100}}


def test_where_a_query_begins_is_written_down_before_it_is_used(cluster: ClusterInMemory) -> None:
    """The first micro-batch is empty, so a replay of the next one begins where the query did, whatever is there."""
    for spec, first in (("earliest", {"0-0": 0, "1-0": 0}), ("latest", {"0-0": 2000, "1-0": 1000})):
        one = planner(cluster, startingOffsets=spec)
        start = begin(one)
        assert start["views"] == first
        end = one.end(start, None)
        for log in cluster.logs.values():
            log.data += MESSAGE
        assert begin(one) == start
        cluster.away = {1}
        assert begin(planner(cluster, startingOffsets=spec)) != start
        cluster.away.clear()
        assert ranges(planner(cluster), start, end) == ranges(one, start, end)
        for log in cluster.logs.values():
            del log.data[-len(MESSAGE) :]


def test_a_restart_does_not_pass_over_what_was_born_since_under_latest(cluster: ClusterInMemory) -> None:
    """The query began when there was nothing, and its checkpoint says so."""
    logs, cluster.logs = cluster.logs, {}
    start = begin(planner(cluster, startingOffsets="latest"))
    assert start != NEW_QUERY
    cluster.logs = logs
    for log in logs.values():
        log.times_ms = [10**15] * len(log.times_ms)  # written after the start
    restarted = planner(cluster, startingOffsets="latest")
    entered = restarted.end(start, None)
    assert flatten(entered) == {ONE: 0, TWO: 0}
    assert ranges(restarted, entered, restarted.end(entered, None)) == {ONE: (0, 2000), TWO: (0, 1000)}


def test_a_broker_that_was_away_at_the_start_is_read_from_where_latest_was_then(cluster: ClusterInMemory) -> None:
    """As near as its segments tell: those that were last written before the start are not read. A restart knows it."""
    cluster.away = {0}
    one = planner(cluster, startingOffsets="latest")
    start = begin(one)
    assert flatten(start) == {TWO: 1000}
    cluster.away.clear()
    assert flatten(one.end(start, None)) == {ONE: 2000, TWO: 1000}
    cluster.logs[ONE].times_ms = [0, 10**15]  # the second one was written since
    assert flatten(planner(cluster, startingOffsets="latest").end(start, None)) == {ONE: 1000, TWO: 1000}
    assert flatten(planner(cluster).end(start, None)) == {ONE: 1000, TWO: 1000}


def test_offsets_that_are_given_need_no_broker(cluster: ClusterInMemory) -> None:
    """By JSON or by a group: a partition that comes later begins there, not at its beginning."""
    cluster.away = {1}
    for options in (
        {"startingOffsets": '{"views": {"0-0": -2, "1-0": 500}}'},
        {"groupid": "reports", "startingOffsets": "latest"},
    ):
        cluster.offsets = {TWO: 500}
        start = begin(planner(cluster, **options, **{"fetchOffset.numRetries": "3"}))
        assert flatten(start)[TWO] == 500
    assert not cluster.slept_s


def test_offset_and_time_0_are_as_good_as_any(cluster: ClusterInMemory) -> None:
    """The first is an offset, though nothing may be there any more; the second is the beginning of all there is."""
    cluster.logs[ONE].delete_until(1000)
    assert flatten(begin(planner(cluster, startingOffsets='{"views": {"0-0": 0, "1-0": -2}}'))) == {ONE: 0, TWO: 0}
    assert flatten(begin(planner(cluster, startingOffsets="latest", startingTimestamp="0"))) == {ONE: 1000, TWO: 0}


def test_a_partition_that_is_not_there_is_not_begun(cluster: ClusterInMemory) -> None:
    """It is an error, or passed over, though its offset is given."""
    named = {"startingOffsets": '{"views": {"0-0": 100, "0-5": 7, "1-0": 0}}'}
    with pytest.raises(DataLossError, match="views/0-5 is not there: broker 0 has no such partition"):
        begin(planner(cluster, **named))
    assert flatten(begin(planner(cluster, failOnDataLoss="false", **named))) == {ONE: 100, TWO: 0}


def test_an_end_that_is_asked_for_by_name_is_waited_for(cluster: ClusterInMemory) -> None:
    """What -1 means of a broker that is away, only that one can say; -2 means the same whenever it comes."""
    cluster.away = {1}
    options = {"startingOffsets": '{"views": {"0-0": 100, "1-0": -1}}', "fetchOffset.numRetries": "3"}
    with pytest.raises(BrokerAwayError, match="views/1-0 cannot be read"):
        begin(planner(cluster, **options))
    cluster.on_sleep = cluster.away.clear
    assert flatten(begin(planner(cluster, **options))) == {ONE: 100, TWO: 1000}
    cluster.away, cluster.on_sleep = {1}, lambda: None
    one = planner(cluster, startingOffsets='{"views": {"0-0": 100, "1-0": -2}}')
    start = begin(one)
    cluster.away.clear()
    assert flatten(one.end(start, None))[TWO] == 0


def test_partitions_in_json_that_are_not_there_are_errors(cluster: ClusterInMemory) -> None:
    """A broker says so that has no such partition; a topic that is not subscribed to; a broker that never comes."""
    with pytest.raises(DataLossError, match="views/1-7 is not there: broker 1 has no such partition"):
        begin(planner(cluster, startingOffsets='{"views": {"0-0": 0, "1-0": 0, "1-7": 0}}'))
    with pytest.raises(ConfigError, match="names topic vews, which is not subscribed to"):
        begin(planner(cluster, startingOffsets='{"views": {"0-0": 0, "1-0": 0}, "vews": {"0-0": 0}}'))
    with pytest.raises(ConfigError, match=r"must name every partition .* views/1-0"):
        begin(planner(cluster, startingOffsets='{"views": {"0-0": 0}}'))
    one = planner(cluster, startingOffsets='{"views": {"0-0": 0, "1-0": 0, "77-0": 5}}')
    start = begin(one)
    with pytest.raises(BrokerAwayError, match="the broker of views/77-0 was unavailable"):
        deque((one.end(start, None) for _ in range(100)), maxlen=0)


def test_a_topic_that_is_no_longer_subscribed_to_stays_where_it_is(
    cluster: ClusterInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    """It is read on when it is subscribed to again; a micro-batch that was planned before still reads it."""
    clicks = TopicPartition("clicks", 0, 0)
    cluster.logs[clicks] = LogInMemory([SEGMENT])
    both = planner(cluster, subscribe="views,clicks")
    start = begin(both)
    one = planner(cluster)
    end = one.end(start, None)
    assert flatten(end) == {clicks: 0, ONE: 2000, TWO: 1000}
    assert "topics no longer subscribed to, and no longer read: clicks" in caplog.text
    assert "clicks" not in (one.latest() or {})
    assert flatten(both.end(end, None))[clicks] == 1000
    assert ranges(one, start, both.end(start, None))[clicks] == (0, 1000)


def test_a_registry_that_cannot_be_read_holds_up_nobody(
    cluster: ClusterInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    """The brokers are known, so the query reads on from them, and finds new ones when the registry is back."""
    one = planner(cluster)
    end = one.end(begin(one), None)
    cluster.blind = True
    cluster.logs[TWO].data += MESSAGE
    end = one.end(end, None)
    assert flatten(end)[TWO] == 1100
    assert [one.end(end, None) for _ in range(3)] == [end] * 3
    assert caplog.text.count("the registry cannot be read") == 1
    assert not cluster.slept_s
    cluster.blind = False
    cluster.logs[TopicPartition("views", 2, 0)] = LogInMemory([SEGMENT])
    assert "2-0" in one.end(end, None)["views"]


def test_a_broker_that_hangs_holds_up_nobody(cluster: ClusterInMemory) -> None:
    """It counts as away until it has answered."""
    answers = cluster.hung[1] = threading.Event()
    answers.set()
    read = StreamOptions.from_options(
        {
            "zk.connect": "localhost:1",
            "subscribe": "views",
            "startingOffsets": "earliest",
            "fetchOffset.numRetries": "1000",  # seconds here: a busy machine may take longer than the patience
        }
    )
    clock = Clock()
    one = StreamPlanner(read, cluster.lookup(read, patience_s=0.01), clock)
    end = one.end(begin(one), None)
    while flatten(end) != {ONE: 2000, TWO: 1000}:
        end = one.end(end, None)
    answers.clear()
    for log in cluster.logs.values():
        log.data += MESSAGE
    while flatten(end)[ONE] != 2100:
        end = one.end(end, None)
    assert flatten(end)[TWO] == 1000

    def wait_long() -> None:
        for _ in range(10):
            clock.now_s += 300
            one.end(end, None)

    with pytest.raises(BrokerAwayError, match=r"the broker of views/1-0 was unavailable.* does not answer"):
        wait_long()
    answers.set()
    while flatten(end)[TWO] != 1100:
        with suppress(BrokerAwayError):  # its answer may still take longer than the patience
            end = one.end(end, None)


def test_a_group_in_use_does_not_end_the_query(cluster: ClusterInMemory, caplog: pytest.LogCaptureFixture) -> None:
    """Its members would write over what the query commits: the log says so once, and later commits cover it."""
    one = planner(cluster, groupid="reports", commitOffsets="true")
    cluster.members = ["one"]
    one.commit({"views": {"0-0": 100}})
    one.commit({"views": {"0-0": 200}})
    assert caplog.text.count("nothing is committed to group reports while it is in use") == 1
    cluster.members = []
    one.commit({"views": {"0-0": 300}, "": {"sinceMs": 5}})
    assert cluster.offsets == {ONE: 300}


def test_available_now_fails_for_a_topic_that_nobody_ever_had(
    cluster: ClusterInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    """It would end at once, as if it had read it. A query that runs on waits for it, and says so."""
    with pytest.raises(KafkaError, match="topic vews is unknown"):
        planner(cluster, subscribe="views,vews").stop_at_latest()
    begin(planner(cluster, subscribe="views,vews"))
    assert "topic vews is unknown" in caplog.text


def test_available_now_gets_past_a_lost_broker(cluster: ClusterInMemory) -> None:
    """With failOnDataLoss=false, after one wait, also when a micro-batch of it was planned."""
    cluster.away = {1}
    one = planner(cluster, failOnDataLoss="false", **{"fetchOffset.numRetries": "3"})
    one.stop_at_latest()
    start, planned = {"views": {"0-0": 0, "1-0": 0}}, {"views": {"0-0": 1000, "1-0": 1000}}
    assert ranges(one, start, planned) == {ONE: (0, 1000)}
    assert cluster.slept_s == [1.0] * 3
    end = one.end(planned, None)
    assert flatten(end) == {ONE: 2000, TWO: 1000}
    assert one.end(end, None) == end
    assert cluster.slept_s == [1.0] * 6


def test_a_new_partition_first_says_where_it_begins(cluster: ClusterInMemory) -> None:
    """It enters the checkpoint before its rows are read."""
    one = planner(cluster)
    before = one.end(begin(one), None)
    cluster.logs[TopicPartition("views", 2, 0)] = LogInMemory([SEGMENT], 700)
    entered = one.end(before, None)
    assert offsets(entered) == {"views": {"0-0": 2000, "1-0": 1000, "2-0": 700}}
    assert one.tasks(before, entered) == []
    assert ranges(one, entered, one.end(entered, None)) == {TopicPartition("views", 2, 0): (700, 1700)}


def test_a_stream_can_begin_before_its_topic(cluster: ClusterInMemory) -> None:
    """It waits for it."""
    logs, cluster.logs = cluster.logs, {}
    one = planner(cluster)
    start = begin(one)
    assert one.end(start, None) == start == {}
    cluster.logs = logs
    entered = one.end(start, None)
    assert offsets(one.end(entered, None)) == {"views": {"0-0": 2000, "1-0": 1000}}


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
    start, ends = begin(one), {each: log.end for each, log in logs.items()}
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
    start = begin(one)
    log.fetched_bytes = 0
    assert flatten(one.end(start, 2000))[ONE] == 1300
    assert log.fetched_bytes <= 340 + CHECKED_BYTES


def test_admission_gets_past_lengths_that_make_no_sense(cluster: ClusterInMemory) -> None:
    """It goes to the next segment, and leaves it to the tasks to say what is wrong."""
    cluster.logs[ONE].data[:4] = (2**30).to_bytes(4)
    one = planner(cluster)
    assert flatten(one.end(begin(one), 100))[ONE] == 1000
    cluster.logs[ONE].data[:4] = b"\0\0\0\0"
    assert flatten(one.end(begin(one), 100))[ONE] == 1000


def test_available_now_stops_at_what_was_there(cluster: ClusterInMemory) -> None:
    """What comes meanwhile, in old or new partitions, is not read."""
    one = planner(cluster)
    one.stop_at_latest()
    start = begin(one)
    cluster.logs[ONE].data += SEGMENT
    cluster.logs[TopicPartition("views", 2, 0)] = LogInMemory([SEGMENT])
    end = one.end(start, None)
    assert offsets(end) == {"views": {"0-0": 2000, "1-0": 1000}}
    assert one.end(end, None) == end


def test_available_now_waits_for_a_partition_of_the_checkpoint(cluster: ClusterInMemory) -> None:
    """Its broker is away when the query is started again, and comes back."""
    one = planner(cluster)
    cluster.away = {1}
    one.stop_at_latest()
    cluster.on_sleep = cluster.away.clear
    start = {"views": {"0-0": 0, "1-0": 500}}
    assert offsets(one.end(start, None)) == {"views": {"0-0": 2000, "1-0": 1000}}
    assert cluster.slept_s


def test_others_go_on_while_a_broker_is_away(cluster: ClusterInMemory) -> None:
    """Its partitions stay where they are, until the wait is over and the query stops with a clear error."""
    one = planner(cluster, **{"fetchOffset.numRetries": "60"})
    end = one.end(begin(one), None)
    cluster.away = {1}
    cluster.logs[ONE].data += MESSAGE
    cluster.logs[TWO].data += MESSAGE
    following = one.end(end, None)
    assert offsets(following) == {"views": {"0-0": 2100, "1-0": 1000}}
    assert [one.end(following, None) for _ in range(5)] == [following] * 5
    with pytest.raises(BrokerAwayError, match="the broker of views/1-0 was unavailable for 60000 ms"):
        deque((one.end(following, None) for _ in range(100)), maxlen=0)


def test_a_broker_that_comes_back_is_read_on(cluster: ClusterInMemory) -> None:
    """From where it was."""
    one = planner(cluster)
    end = one.end(begin(one), None)
    cluster.away = {1}
    cluster.logs[TWO].data += MESSAGE
    assert one.end(end, None) == end
    cluster.away.clear()
    assert offsets(one.end(end, None)) == {"views": {"0-0": 2000, "1-0": 1100}}


def test_a_log_that_got_shorter_is_lost_data(cluster: ClusterInMemory) -> None:
    """The query stops, or reads the log in its place from the first offset."""
    strict, lenient = planner(cluster), planner(cluster, failOnDataLoss="false")
    end = strict.end(begin(strict), None)
    cluster.logs[TWO] = LogInMemory([MESSAGE])
    with pytest.raises(DataLossError, match="views/1-0 ends at 100, but was read up to 1000"):
        strict.end(end, None)
    following = lenient.end(end, None)
    assert offsets(following) == {"views": {"0-0": 2000, "1-0": 0}}
    assert lenient.tasks(end, following) == []
    assert ranges(lenient, following, lenient.end(following, None)) == {TWO: (0, 100)}


@pytest.mark.parametrize("limit", [None, 600])
def test_a_longer_log_in_the_place_of_another_is_lost_data(cluster: ClusterInMemory, limit: int | None) -> None:
    """The query stops, or reads the new log from its first offset; both also after a restart."""
    strict, lenient = planner(cluster), planner(cluster, failOnDataLoss="false")
    end = strict.end(begin(strict), None)
    cluster.logs[TWO] = LogInMemory([other_segment(b"n")] * 5)
    for one in (strict, planner(cluster)):
        with pytest.raises(DataLossError, match="views/1-0 was read up to 1000, but its log has other bytes"):
            one.end(end, limit)
    for one in (lenient, planner(cluster, failOnDataLoss="false")):
        following = one.end(end, limit)
        assert offsets(following) == {"views": {"0-0": 2000, "1-0": 0}}
        assert one.tasks(end, following) == []
    restarted = planner(cluster)
    assert ranges(restarted, following, restarted.end(following, None)) == {TWO: (0, 5000)}


def test_a_log_in_the_place_of_another_is_noticed_once_there_is_something_to_read(cluster: ClusterInMemory) -> None:
    """While it is exactly as long as the old one, nothing is lost that could still be read."""
    one = planner(cluster)
    end = one.end(begin(one), None)
    cluster.logs[TWO] = LogInMemory([other_segment(b"n")])
    assert one.end(end, None) == end
    cluster.logs[TWO].data += MESSAGE
    with pytest.raises(DataLossError, match="views/1-0"):
        one.end(end, None)


def test_a_log_that_was_replaced_before_the_first_rows_were_read_is_noticed(cluster: ClusterInMemory) -> None:
    """Where a query begins is checked as well, if something stands before it."""
    one = planner(cluster, startingOffsets="latest")
    start = begin(one)
    cluster.logs[TWO] = LogInMemory([other_segment(b"n")] * 2)
    with pytest.raises(DataLossError, match="views/1-0 was read up to 1000"):
        one.end(start, None)


def test_a_planned_micro_batch_is_not_replayed_from_another_log(cluster: ClusterInMemory) -> None:
    """What it was to read is lost; the log in its place is then read from its first offset."""
    one = planner(cluster)
    start = begin(one)
    end = one.end(start, None)
    cluster.logs[TWO] = LogInMemory([other_segment(b"n")] * 5)
    with pytest.raises(DataLossError, match="views/1-0 was to be read from 0 to 1000, but its log is another one"):
        planner(cluster).tasks(start, end)
    lenient = planner(cluster, failOnDataLoss="false")
    assert ranges(lenient, start, end) == {ONE: (0, 2000)}
    restart = lenient.end(end, None)
    assert offsets(restart) == {"views": {"0-0": 2000, "1-0": 0}}
    assert ranges(lenient, restart, lenient.end(restart, None)) == {TWO: (0, 5000)}


def test_a_planned_micro_batch_is_replayed_from_the_same_log(cluster: ClusterInMemory) -> None:
    """Whatever was appended, and where retention has removed what would be compared."""
    one = planner(cluster)
    middle = one.end(begin(one), 700)
    end = one.end(middle, None)
    cluster.logs[ONE].data += SEGMENT
    assert ranges(planner(cluster), middle, end) == ranges(one, middle, end)


def test_a_micro_batch_that_was_just_planned_is_not_compared_again(cluster: ClusterInMemory) -> None:
    """The comparison happened when it was planned."""
    one = planner(cluster)
    start = begin(one)
    end = one.end(start, None)
    before = cluster.logs[ONE].fetched_bytes
    one.tasks(start, end)
    assert cluster.logs[ONE].fetched_bytes == before


def test_offsets_stay_as_they_are_while_nothing_is_new(cluster: ClusterInMemory) -> None:
    """Other text would make Spark run an empty micro-batch; a look at the logs' bytes is not needed either."""
    one = planner(cluster)
    end = one.end(begin(one), None)
    before = cluster.logs[ONE].fetched_bytes
    assert json.dumps(one.end(json.loads(json.dumps(end)), None)) == json.dumps(end)
    assert cluster.logs[ONE].fetched_bytes == before
    cluster.logs[TWO].data += MESSAGE
    following = one.end(end, None)
    assert following[MARK]["logChecks"]["views"]["0-0"] == end[MARK]["logChecks"]["views"]["0-0"]
    assert following[MARK]["logChecks"]["views"]["1-0"] != end[MARK]["logChecks"]["views"]["1-0"]


def test_checkpoints_without_checks_are_read_on(cluster: ClusterInMemory) -> None:
    """Releases before 0.3 wrote none; they come with the next offsets."""
    one = planner(cluster)
    old = offsets(one.end(begin(one), None))
    assert one.end(old, None) == old
    cluster.logs[TWO].data += MESSAGE
    following = one.end(old, None)
    assert list(following[MARK]["logChecks"]["views"]) == ["1-0"]
    cluster.logs[TWO] = LogInMemory([other_segment(b"n")] * 5)
    with pytest.raises(DataLossError):
        one.end(following, None)


def test_bytes_that_retention_removed_are_not_compared(cluster: ClusterInMemory) -> None:
    """The log is taken for the same one."""
    one = planner(cluster)
    end = one.end(begin(one), None)
    cluster.logs[ONE] = LogInMemory([SEGMENT] * 3)
    cluster.logs[ONE].delete_until(2000)
    assert ranges(one, end, one.end(end, None)) == {ONE: (2000, 3000)}


def test_a_broker_that_goes_down_before_its_log_is_compared_holds_up_nobody(cluster: ClusterInMemory) -> None:
    """Its partitions stay where they are, with their checks."""
    one = planner(cluster, **{"fetchOffset.numRetries": "60"})
    end = one.end(begin(one), None)
    for log in cluster.logs.values():
        log.data += MESSAGE
    cluster.fails_fetches.add(1)
    following = one.end(end, None)
    assert offsets(following) == {"views": {"0-0": 2100, "1-0": 1000}}
    assert following[MARK]["logChecks"]["views"]["1-0"] == end[MARK]["logChecks"]["views"]["1-0"]
    assert not cluster.slept_s
    cluster.fails_fetches.clear()
    assert offsets(one.end(following, None)) == {"views": {"0-0": 2100, "1-0": 1100}}


def test_retention_that_passes_a_limited_query_is_lost_data(cluster: ClusterInMemory) -> None:
    """Found while scanning for a boundary."""
    strict, lenient = planner(cluster), planner(cluster, failOnDataLoss="false")
    start = begin(strict)
    cluster.logs[ONE].delete_until(1000)
    with pytest.raises(DataLossError, match="views/0-0 was read up to 0, but begins at 1000 now"):
        strict.end(start, 600)
    assert flatten(lenient.end(start, 600))[ONE] == 1400


def test_a_stream_looks_when_a_broker_says_that_there_is_more(
    cluster: ClusterInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And hardly ever otherwise, as long as all brokers would say it."""
    read = StreamOptions.from_options(
        {"zk.connect": "localhost:1", "subscribe": "views", "startingOffsets": "earliest"}
    )
    lookup = cluster.lookup(read)
    clock = ManualClock(1000.0)
    one = StreamPlanner(read, lookup, clock)
    watched: list[dict[TopicPartition, int]] = []
    news: list[bool] = []
    monkeypatch.setattr(lookup, "watch", watched.append)
    monkeypatch.setattr(lookup, "is_watching", lambda partitions: set(partitions) == {ONE, TWO})
    monkeypatch.setattr(lookup, "has_news", lambda: bool(news and news.pop()))
    end = one.end(begin(one), None)
    cluster.logs[ONE].data += MESSAGE
    clock.now_s += 0.5
    assert one.end(end, None) == end
    news.append(True)
    end = one.end(end, None)
    assert flatten(end)[ONE] == 2100
    cluster.logs[TWO].data += MESSAGE
    clock.now_s += 1.0
    assert flatten(one.end(end, None))[TWO] == 1100
    assert [each[ONE] for each in watched] == [2000, 2100, 2100]


def test_a_micro_batch_waits_for_enough_or_long_enough(cluster: ClusterInMemory) -> None:
    """The first one of a query does not; nor does one that is to stop where the logs end now."""
    one = planner(cluster, minBytesPerTrigger="300", maxTriggerDelay="30s")
    start = begin(one)
    end = one.end(start, None)
    assert flatten(end) == {ONE: 2000, TWO: 1000}
    cluster.logs[ONE].data += MESSAGE
    assert one.end(end, None) == end
    cluster.logs[TWO].data += MESSAGE * 2
    enough = one.end(end, None)
    assert flatten(enough) == {ONE: 2100, TWO: 1200}
    cluster.logs[TWO].data += MESSAGE
    looks = 0
    while (late := one.end(enough, None)) == enough:
        looks += 1
    assert 0 < looks < 15  # of two seconds each, or more
    assert flatten(late)[TWO] == 1300
    cluster.logs[TWO].data += MESSAGE
    one.stop_at_latest()
    assert flatten(one.end(late, None))[TWO] == 1400


def test_a_stream_of_assigned_partitions_reads_no_others(cluster: ClusterInMemory) -> None:
    """A restart that assigns fewer keeps the offsets of the others."""
    one = planner(cluster, subscribe="", assign='{"views": ["1-0"]}')
    start = begin(one)
    assert flatten(start) == {TWO: 0}
    assert flatten(one.end(start, None)) == {TWO: 1000}
    both = {"views": {"0-0": 1000, "1-0": 500}}
    assert flatten(one.end(both, None)) == {ONE: 1000, TWO: 1000}
    gone = planner(cluster, subscribe="", assign='{"views": ["1-0", "1-9"]}')
    with pytest.raises(DataLossError, match="views/1-9 is not there"):
        begin(gone)


def test_a_stream_begins_with_each_partition_by_its_time(cluster: ClusterInMemory) -> None:
    """One whose broker is away then begins no later than the earliest of these times."""
    cluster.logs[ONE].times_ms = [100, 200]
    cluster.logs[TWO].times_ms = [150]
    times = '{"views": {"0-0": 101, "1-0": 150}}'
    assert flatten(begin(planner(cluster, startingOffsetsByTimestamp=times))) == {ONE: 1000, TWO: 0}
    cluster.away = {0}
    one = planner(cluster, startingOffsetsByTimestamp=times)
    start = begin(one)
    assert flatten(start) == {TWO: 0}
    cluster.away.clear()
    assert flatten(one.end(start, None))[ONE] == 1000
    late = {"startingOffsetsByTimestamp": '{"views": {"0-0": 201, "1-0": 0}}'}
    assert flatten(begin(planner(cluster, **late))) == {ONE: 2000, TWO: 0}
    with pytest.raises(KafkaError, match="nothing was written to views/0-0 since 201 ms"):
        begin(planner(cluster, startingOffsetsByTimestampStrategy="error", **late))
