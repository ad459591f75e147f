"""From options to ranges and tasks, over a cluster in memory."""

from __future__ import annotations

import threading

import pytest

from kafka2011.errors import ConfigError, KafkaError
from kafka2011.message.message_set import encode
from kafka2011.spark.errors import BrokerAwayError, DataLossError
from kafka2011.spark.offset_ranges import OffsetRange
from kafka2011.spark.options import BatchOptions
from kafka2011.spark.plan import DataLoss, ReplacedLog, ResolvedOffsets, admit, plan, resolve_after, resolve_batch
from tests.support.cluster_in_memory import ClusterInMemory
from tests.support.logs_in_memory import LogInMemory
from zk.cluster import TopicPartition

ONE, TWO, OTHER = TopicPartition("views", 0, 0), TopicPartition("views", 1, 0), TopicPartition("clicks", 0, 0)
SEGMENT = b"".join(encode(b"x" * 90) for _ in range(10))  # 1,000 bytes


@pytest.fixture
def cluster() -> ClusterInMemory:
    return ClusterInMemory(
        {
            ONE: LogInMemory([SEGMENT] * 3, 5000, [100, 200, 300]),
            TWO: LogInMemory([SEGMENT], 0, [150]),
            OTHER: LogInMemory([SEGMENT], 0, [150]),
        }
    )


def resolve(cluster: ClusterInMemory, **options: str) -> dict[TopicPartition, tuple[int, int]]:
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views", **options})
    return {each.topic_partition: (each.start, each.end) for each in resolve_batch(read, cluster.lookup(read))}


def test_all_there_is(cluster: ClusterInMemory) -> None:
    """From the first segment to the flushed end, of the topics that are subscribed to."""
    assert resolve(cluster) == {ONE: (5000, 8000), TWO: (0, 1000)}
    assert resolve(cluster, subscribe="", subscribePattern=".*s") == {
        OTHER: (0, 1000),
        ONE: (5000, 8000),
        TWO: (0, 1000),
    }


def test_offsets_by_partition(cluster: ClusterInMemory) -> None:
    """-2 and -1 are the ends of the log."""
    found = resolve(
        cluster,
        startingOffsets='{"views": {"0-0": 5100, "1-0": -2}}',
        endingOffsets='{"views": {"0-0": -1, "1-0": 300}}',
    )
    assert found == {ONE: (5100, 8000), TWO: (0, 300)}


def test_every_partition_must_be_named(cluster: ClusterInMemory) -> None:
    """As in Spark's own connector; the missing one is named."""
    with pytest.raises(ConfigError, match=r"startingOffsets must name every partition .* views/1-0"):
        resolve(cluster, startingOffsets='{"views": {"0-0": 5100}}')
    with pytest.raises(ConfigError, match="endingOffsets must name every partition"):
        resolve(cluster, endingOffsets='{"views": {"0-0": 5100}}')


@pytest.mark.parametrize(
    ("time_ms", "start", "end"),
    [
        (0, 5000, 6000),
        (50, 5000, 6000),
        (100, 5000, 6000),
        (101, 6000, 7000),
        (200, 6000, 7000),
        (300, 7000, 8000),
        (301, 8000, 8000),
    ],
)
def test_a_time_is_a_segment(cluster: ClusterInMemory, time_ms: int, start: int, end: int) -> None:
    """The first that was still written then: a read begins with it, or ends behind it, so that nothing is missing."""
    assert resolve(cluster, startingTimestamp=str(time_ms))[ONE] == (start, 8000)
    assert resolve(cluster, endingTimestamp=str(time_ms))[ONE] == (5000, end)


def test_a_group_goes_on_where_it_was(cluster: ClusterInMemory) -> None:
    """Partitions that it has not committed go by startingOffsets."""
    cluster.offsets = {ONE: 6500, OTHER: 3}
    assert resolve(cluster, groupid="reports") == {ONE: (6500, 8000), TWO: (0, 1000)}


def test_a_time_goes_before_a_group_and_before_names(cluster: ClusterInMemory) -> None:
    """Also 0, which is before everything; nobody waits for what need not be looked at."""
    cluster.offsets = {ONE: 6500}
    assert resolve(cluster, groupid="reports", startingTimestamp="0")[ONE] == (5000, 8000)
    cluster.away = {1}
    named = '{"views": {"0-0": 6000, "1-0": 100}}'
    assert resolve(cluster, startingOffsets=named, startingTimestamp="0") == {ONE: (5000, 8000)}
    assert not cluster.slept_s


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        ('{"views": {"0-0": 4000, "1-0": 0}}', "latest"),
        ('{"views": {"0-0": 9000, "1-0": 0}}', "latest"),
        ("earliest", '{"views": {"0-0": 8001, "1-0": 0}}'),
    ],
)
def test_lost_data_is_an_error_or_passed_over(cluster: ClusterInMemory, starts: str, ends: str) -> None:
    """Offsets before the first segment or behind the end."""
    with pytest.raises(DataLossError, match="views/0-0 was to be read"):
        resolve(cluster, startingOffsets=starts, endingOffsets=ends)
    start, end = resolve(cluster, startingOffsets=starts, endingOffsets=ends, failOnDataLoss="false")[ONE]
    assert (start, end) == ((8000, 8000) if "9000" in starts else (5000, 8000))


def test_an_end_before_the_start_is_an_error(cluster: ClusterInMemory) -> None:
    """Nobody means that."""
    with pytest.raises(ConfigError, match="views/0-0: the ending offset 5000 lies before the starting offset 6000"):
        resolve(
            cluster,
            startingOffsets='{"views": {"0-0": 6000, "1-0": 0}}',
            endingOffsets='{"views": {"0-0": 5000, "1-0": 0}}',
        )


def test_an_unknown_topic_is_an_error_at_once(cluster: ClusterInMemory) -> None:
    """A misspelt name is not waited for."""
    with pytest.raises(KafkaError, match="topic vews is unknown"):
        resolve(cluster, subscribe="vews")
    assert not cluster.slept_s


def test_a_topic_whose_brokers_are_away_is_waited_for(cluster: ClusterInMemory) -> None:
    """It was registered before, so somebody has it."""
    del cluster.logs[ONE]
    cluster.away = {1}
    cluster.on_sleep = cluster.away.clear
    assert resolve(cluster) == {TWO: (0, 1000)}
    cluster.away, cluster.on_sleep = {1}, lambda: None
    with pytest.raises(BrokerAwayError, match="no live broker has topic views"):
        resolve(cluster, **{"fetchOffset.numRetries": "2"})


def test_one_topic_of_several_is_waited_for(cluster: ClusterInMemory) -> None:
    """Though there are partitions of the others."""
    del cluster.logs[ONE]
    cluster.away = {1}
    cluster.on_sleep = cluster.away.clear
    assert resolve(cluster, subscribe="clicks,views") == {OTHER: (0, 1000), TWO: (0, 1000)}
    assert cluster.slept_s


def test_a_partition_that_a_group_has_committed_is_waited_for(cluster: ClusterInMemory) -> None:
    """Like one that is named, and named itself in the error."""
    cluster.offsets, cluster.away = {TWO: 500}, {1}
    options = {"groupid": "reports", "fetchOffset.numRetries": "3"}
    with pytest.raises(DataLossError, match="views/1-0 is not there"):
        resolve(cluster, **options)
    cluster.on_sleep = cluster.away.clear
    assert resolve(cluster, **options) == {ONE: (5000, 8000), TWO: (500, 1000)}


def test_what_is_named_for_want_of_a_commit_is_not_waited_for(cluster: ClusterInMemory) -> None:
    """With a group, startingOffsets are only for partitions that are there."""
    cluster.offsets, cluster.away = {ONE: 6000}, {1}
    options = {"groupid": "reports", "startingOffsets": '{"views": {"0-0": -2, "1-0": -2}}'}
    assert resolve(cluster, **options) == {ONE: (6000, 8000)}
    assert not cluster.slept_s


def test_a_named_partition_that_its_broker_does_not_have_is_lost(cluster: ClusterInMemory) -> None:
    """The broker is there, so waiting would not help."""
    named = {"startingOffsets": '{"views": {"0-0": -2, "0-5": 7, "1-0": -2}}'}
    with pytest.raises(DataLossError, match="views/0-5 is not there: broker 0 has no such partition"):
        resolve(cluster, **named)
    assert resolve(cluster, failOnDataLoss="false", **named) == {ONE: (5000, 8000), TWO: (0, 1000)}


def test_a_named_partition_is_waited_for(cluster: ClusterInMemory) -> None:
    """Its broker comes back, or the read stops, or goes on without it if lost data may be passed over."""
    named = {"startingOffsets": '{"views": {"0-0": -2, "1-0": -2}}', "fetchOffset.numRetries": "3"}
    cluster.away = {1}
    with pytest.raises(DataLossError, match="views/1-0 is not there"):
        resolve(cluster, **named)
    assert cluster.slept_s == [1.0] * 3
    assert resolve(cluster, failOnDataLoss="false", **named) == {ONE: (5000, 8000)}
    cluster.on_sleep = cluster.away.clear
    assert resolve(cluster, **named) == {ONE: (5000, 8000), TWO: (0, 1000)}


def test_resolved_offsets_read_the_same_again(cluster: ClusterInMemory) -> None:
    """What was latest does not move any more."""
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views"})
    resolved = ResolvedOffsets(tuple(resolve_batch(read, cluster.lookup(read))))
    cluster.logs[ONE].data += SEGMENT
    again = resolve(cluster, startingOffsets=resolved.starting_offsets, endingOffsets=resolved.ending_offsets)
    assert again == {ONE: (5000, 8000), TWO: (0, 1000)}
    assert resolved.size_bytes == 4000


def test_tasks_begin_where_messages_do(cluster: ClusterInMemory) -> None:
    """A minimum of tasks cuts at segment starts and scanned boundaries; without it a partition is a task."""
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views"})
    lookup, loss = cluster.lookup(read), DataLoss(read)
    ranges = [OffsetRange(ONE, 5000, 8000), OffsetRange(TWO, 0, 1000), OffsetRange(OTHER, 400, 400)]
    assert [each.offset_range for each in plan(lookup, ranges, 0, loss)] == ranges[:2]
    parts = [each.offset_range for each in plan(lookup, ranges, 8, loss)]
    assert len(parts) == 8
    assert all(part.start % 100 == 0 for part in parts)
    assert {6000, 7000} <= {part.start for part in parts}
    assert sum(part.size_bytes for part in parts) == 4000
    assert plan(lookup, ranges, 3, loss)[0].broker.address == "127.0.0.1:9000"


def test_what_is_gone_of_a_range_does_not_keep_it_from_being_cut(cluster: ClusterInMemory) -> None:
    """Retention took its start, or all of it: tasks are planned from what is there, and the first one will say so."""
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views"})
    lookup, loss = cluster.lookup(read), DataLoss(read)
    parts = [each.offset_range for each in plan(lookup, [OffsetRange(ONE, 3000, 8000)], 4, loss)]
    assert len(parts) == 4
    assert (parts[0].start, parts[-1].end) == (3000, 8000)
    assert all(part.start >= 5000 for part in parts[1:])
    gone = [OffsetRange(ONE, 3000, 4000)]
    assert [each.offset_range for each in plan(lookup, gone, 4, loss)] == gone


def test_tasks_begin_at_segment_starts_that_are_near(cluster: ClusterInMemory) -> None:
    """These are known, so nothing is read to find them."""
    message = encode(b"x" * 90)
    cluster.logs[ONE] = LogInMemory([message * 10, message * 12], 5000)
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views"})
    parts = plan(cluster.lookup(read), [OffsetRange(ONE, 5000, 7200)], 2, DataLoss(read))
    assert [each.offset_range.start for each in parts] == [5000, 6000]
    assert cluster.logs[ONE].fetched_bytes == 0


def test_a_range_that_is_not_cut_is_not_asked_about(cluster: ClusterInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task finds out what is there."""
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views"})
    lookup = cluster.lookup(read)
    monkeypatch.setattr(lookup, "bounds", pytest.fail)
    ranges = [OffsetRange(ONE, 5000, 8000), OffsetRange(TWO, 0, 1000)]
    assert [each.offset_range for each in plan(lookup, ranges, 2, DataLoss(read))] == ranges


def test_what_waits_shares_what_may_be_read(cluster: ClusterInMemory) -> None:
    """In proportion to what waits, wherever it begins; nothing is said of partitions that are read to their end."""
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views"})
    lookup, loss = cluster.lookup(read), DataLoss(read)
    begin, end = {ONE: 7000, TWO: 0, OTHER: 400}, {ONE: 8000, TWO: 1000, OTHER: 400}
    assert admit(lookup, begin, end, 1000, loss) == {ONE: 7500, TWO: 500}
    assert admit(lookup, begin, end, 2000, loss) == {}


def test_brokers_are_read_from_side_by_side(cluster: ClusterInMemory) -> None:
    """Where cutting needs reading, no broker waits until another one's ranges are cut."""
    together = threading.Barrier(2, timeout=30)
    for partition in (ONE, TWO):
        log = cluster.logs[partition]

        def read(offset: int, max_bytes: int, log: LogInMemory = log) -> bytes:
            together.wait()
            return LogInMemory.read(log, offset, max_bytes)

        log.read = read  # type: ignore[method-assign]
    read_options = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views"})
    some = [OffsetRange(ONE, 5000, 6000), OffsetRange(TWO, 0, 1000)]
    tasks = plan(cluster.lookup(read_options), some, 4, DataLoss(read_options))
    assert [each.offset_range.size_bytes for each in tasks] == [500] * 4


def test_filters_wait_for_no_broker_that_they_leave_out(cluster: ClusterInMemory) -> None:
    """Neither for one that a group remembers nor for one that is named."""
    cluster.away, cluster.of_other_groups, cluster.offsets = {1}, {TWO}, {TWO: 500}
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views", "groupid": "reports"})
    found = resolve_batch(read, cluster.lookup(read), lambda each: each.broker_id == 0)
    assert found == [OffsetRange(ONE, 5000, 8000)]
    assert not cluster.slept_s


def test_ranges_of_a_broker_that_is_away_can_be_passed_over(cluster: ClusterInMemory) -> None:
    """After one wait for all of them, and only with failOnDataLoss=false."""
    more = TopicPartition("views", 1, 1)
    cluster.logs[more] = LogInMemory([SEGMENT])
    cluster.away = {1}
    some = [OffsetRange(ONE, 5000, 8000), OffsetRange(TWO, 0, 1000), OffsetRange(more, 0, 1000)]
    for fail in ("true", "false"):
        read = BatchOptions.from_options(
            {
                "zk.connect": "localhost:1",
                "subscribe": "views",
                "failOnDataLoss": fail,
                "fetchOffset.numRetries": "3",
            }
        )
        cluster.slept_s.clear()
        if fail == "true":
            with pytest.raises(BrokerAwayError, match=r"views/1-0, views/1-1 cannot be read: gave up after 3 retries"):
                plan(cluster.lookup(read), some, 0, DataLoss(read))
        else:
            assert [each.offset_range for each in plan(cluster.lookup(read), some, 0, DataLoss(read))] == some[:1]
        assert cluster.slept_s == [1.0] * 3


def test_a_broker_that_groups_remember_is_missed(cluster: ClusterInMemory, caplog: pytest.LogCaptureFixture) -> None:
    """It is away when a plain batch is planned: an error that names it, or a warning and what is there."""
    cluster.away, cluster.of_other_groups = {1}, {ONE, TWO, OTHER}
    with pytest.raises(DataLossError, match=r"brokers 1 are away.* partitions of views there"):
        resolve(cluster, **{"fetchOffset.numRetries": "3"})
    assert cluster.slept_s == [1.0] * 3
    assert resolve(cluster, failOnDataLoss="false") == {ONE: (5000, 8000)}
    assert "data loss: brokers 1 are away" in caplog.text
    cluster.on_sleep = cluster.away.clear
    assert resolve(cluster) == {ONE: (5000, 8000), TWO: (0, 1000)}


def test_offsets_of_a_topic_that_is_not_subscribed_to_are_an_error(cluster: ClusterInMemory) -> None:
    """A misspelt name in JSON is not passed over."""
    with pytest.raises(ConfigError, match="startingOffsets names topic vews, which is not subscribed to"):
        resolve(cluster, startingOffsets='{"views": {"0-0": -2, "1-0": -2}, "vews": {"0-0": 5}}')
    with pytest.raises(ConfigError, match="endingOffsets names topic vews"):
        resolve(cluster, endingOffsets='{"views": {"0-0": -1, "1-0": -1}, "vews": {"0-0": 5}}')


def go_on(cluster: ClusterInMemory, after: dict[TopicPartition, int], **options: str) -> ResolvedOffsets:
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views", **options})
    return resolve_after(read, cluster.lookup(read), after)


def test_reading_goes_on_after_stored_offsets(cluster: ClusterInMemory) -> None:
    """To the ends of now; from the beginning in partitions that are new."""
    found = go_on(cluster, {ONE: 5100, OTHER: 5})
    assert found == ResolvedOffsets((OffsetRange(ONE, 5100, 8000), OffsetRange(TWO, 0, 1000)))
    assert go_on(cluster, {ONE: 8000, TWO: 1000}).size_bytes == 0


def test_nobody_waits_for_a_broker_that_is_away(cluster: ClusterInMemory) -> None:
    """Its partitions keep their offsets; those that were never read have none. So it is with one that hangs."""
    cluster.away = {1}
    assert go_on(cluster, {ONE: 5100, TWO: 400}) == ResolvedOffsets(
        (OffsetRange(ONE, 5100, 8000), OffsetRange(TWO, 400, 400)), away=(TWO,)
    )
    assert go_on(cluster, {ONE: 5100}).ranges == (OffsetRange(ONE, 5100, 8000),)
    cluster.away = {0, 1}
    assert go_on(cluster, {ONE: 5100}).ranges == (OffsetRange(ONE, 5100, 5100),)
    assert cluster.slept_s == []


def test_what_was_removed_before_it_was_read_is_lost(cluster: ClusterInMemory) -> None:
    with pytest.raises(DataLossError, match=r"views/0-0 was read up to offset 4000, but begins at 5000"):
        go_on(cluster, {ONE: 4000, TWO: 0})
    found = go_on(cluster, {ONE: 4000, TWO: 0}, failOnDataLoss="false")
    assert found.lost == (OffsetRange(ONE, 4000, 5000),)
    assert found.ranges == (OffsetRange(ONE, 5000, 8000), OffsetRange(TWO, 0, 1000))


def test_a_log_that_ends_too_early_has_no_range(cluster: ClusterInMemory) -> None:
    """Its disk was replaced: whoever reads decides."""
    found = go_on(cluster, {ONE: 9000, TWO: 1000})
    assert found.replaced == (ReplacedLog(ONE, 9000, 5000, 8000),)
    assert found.ranges == (OffsetRange(TWO, 1000, 1000),)


def test_a_topic_that_nobody_knows_is_unknown_unless_it_was_read_before(cluster: ClusterInMemory) -> None:
    gone = TopicPartition("gone", 0, 0)
    with pytest.raises(KafkaError, match="topic gone is unknown"):
        go_on(cluster, {}, subscribe="gone")
    assert go_on(cluster, {gone: 7}, subscribe="gone").away == (gone,)


def assigned(partitions: str) -> dict[str, str]:
    """Return the options that name partitions alone."""
    return {"subscribe": "", "assign": partitions}


def test_assigned_partitions_alone_are_read(cluster: ClusterInMemory) -> None:
    """Of several topics; offsets and groups of others do not matter."""
    assert resolve(cluster, **assigned('{"views": ["1-0"], "clicks": ["0-0"]}')) == {TWO: (0, 1000), OTHER: (0, 1000)}
    cluster.offsets = {ONE: 6500, TWO: 300}
    only_two = assigned('{"views": ["1-0"]}')
    assert resolve(cluster, groupid="reports", **only_two) == {TWO: (300, 1000)}
    assert resolve(cluster, startingOffsets='{"views": {"1-0": 100}}', **only_two) == {TWO: (100, 1000)}
    with pytest.raises(ConfigError, match="startingOffsets names views/0-0, which is not assigned"):
        resolve(cluster, startingOffsets='{"views": {"0-0": 5100, "1-0": 100}}', **only_two)


def test_an_assigned_partition_that_is_not_there_is_lost_data(cluster: ClusterInMemory) -> None:
    """A broker that is away is waited for; one that is there has no such partition."""
    with pytest.raises(DataLossError, match="views/0-7 is not there: broker 0 has no such partition"):
        resolve(cluster, **assigned('{"views": ["0-0", "0-7"]}'))
    cluster.away = {1}
    with pytest.raises(DataLossError, match="views/1-0 is not there"):
        resolve(cluster, **assigned('{"views": ["0-0", "1-0"]}'))
    assert cluster.slept_s
    away = assigned('{"views": ["0-0", "1-0"]}')
    assert resolve(cluster, failOnDataLoss="false", **away) == {ONE: (5000, 8000)}
    with pytest.raises(KafkaError, match="topic vews is unknown"):
        resolve(cluster, **assigned('{"vews": ["0-0"]}'))


def test_each_partition_may_have_a_time_of_its_own(cluster: ClusterInMemory) -> None:
    """It goes before a group and startingOffsets, and names every partition."""
    cluster.offsets = {ONE: 6500}
    times = '{"views": {"0-0": 101, "1-0": 0}}'
    assert resolve(cluster, groupid="reports", startingOffsetsByTimestamp=times) == {ONE: (6000, 8000), TWO: (0, 1000)}
    assert resolve(cluster, endingOffsetsByTimestamp=times) == {ONE: (5000, 7000), TWO: (0, 1000)}
    assert resolve(cluster, startingTimestamp="201", startingOffsetsByTimestamp=times)[ONE] == (7000, 8000)
    with pytest.raises(ConfigError, match=r"startingOffsetsByTimestamp must name every partition \(times .* views/1-0"):
        resolve(cluster, startingOffsetsByTimestamp='{"views": {"0-0": 101}}')


def test_a_time_after_everything_is_the_end_or_an_error(cluster: ClusterInMemory) -> None:
    """As startingOffsetsByTimestampStrategy says."""
    late = '{"views": {"0-0": 301, "1-0": 0}}'
    assert resolve(cluster, startingOffsetsByTimestamp=late)[ONE] == (8000, 8000)
    for options in ({"startingOffsetsByTimestamp": late}, {"startingTimestamp": "301"}):
        with pytest.raises(KafkaError, match="nothing was written to views/0-0 since 301 ms"):
            resolve(cluster, startingOffsetsByTimestampStrategy="error", **options)
    early = {"startingOffsetsByTimestamp": '{"views": {"0-0": 300, "1-0": 0}}'}
    assert resolve(cluster, startingOffsetsByTimestampStrategy="error", **early)[ONE] == (7000, 8000)


def test_a_task_reads_no_more_than_a_bound(cluster: ClusterInMemory) -> None:
    """Ranges are cut where messages end; minPartitions may ask for more."""
    read = BatchOptions.from_options({"zk.connect": "localhost:1", "subscribe": "views"})
    lookup = cluster.lookup(read)
    ranges = resolve_batch(read, lookup)
    for bound, least in ((1000, 4), (250, 15), (0, 2)):
        tasks = [task.offset_range for task in plan(lookup, ranges, 0, DataLoss(read), bound)]
        assert len(tasks) >= least
        assert all(task.size_bytes <= (bound + 100 if bound else 3000) for task in tasks)
        assert sum(task.size_bytes for task in tasks) == 4000
