"""Offsets as JSON, both ways."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.spark.offset_ranges import (
    MAX_OFFSET,
    flatten,
    from_json,
    lag_bytes,
    log_checks_of,
    mark,
    nest,
    since_ms_of,
    source_metrics,
    to_json,
)
from zk.cluster import TopicPartition

ids = st.integers(0, 2**31 - 1)
partitions = st.builds(TopicPartition, st.from_regex(r"[a-z][a-z._-]{0,20}", fullmatch=True), ids, ids)


@given(st.dictionaries(partitions, st.integers(0, MAX_OFFSET)))
def test_offsets_survive_a_checkpoint(offsets: dict[TopicPartition, int]) -> None:
    """What Spark writes down comes back the same."""
    assert from_json(to_json(offsets)) == offsets
    assert flatten(json.loads(json.dumps(nest(offsets)))) == offsets


def test_partitions_stand_in_numeric_order() -> None:
    """Broker 2 before broker 10."""
    offsets = {TopicPartition("t", 10, 0): 1, TopicPartition("t", 2, 0): 2, TopicPartition("s", 3, 11): 3}
    assert to_json(offsets) == '{"s": {"3-11": 3}, "t": {"2-0": 2, "10-0": 1}}'


def test_json_that_holds_no_offsets_is_refused() -> None:
    """It says what it is; the largest offset is the largest of Kafka 0.7."""
    for text in ("[1]", '"views"', "null"):
        with pytest.raises(ValueError, match=r"is not {\"topic\""):
            from_json(text)
    assert from_json(f'{{"t": {{"0-0": {2**63 - 1}}}}}') == {TopicPartition("t", 0, 0): 2**63 - 1}
    with pytest.raises(ValueError, match="9223372036854775808 is not an offset"):
        from_json(f'{{"t": {{"0-0": {2**63}}}}}')


def test_lag_is_what_a_query_has_not_read() -> None:
    """From its progress, as text or parsed; a partition not begun counts whole."""
    progress = {"endOffset": {"t": {"0-0": 30}}, "latestOffset": '{"t": {"0-0": 100, "0-1": 7}}'}
    assert lag_bytes(progress) == {TopicPartition("t", 0, 0): 70, TopicPartition("t", 0, 1): 7}
    assert lag_bytes({"endOffset": None, "latestOffset": None}) == {}
    assert lag_bytes({"endOffset": "None", "latestOffset": "None"}) == {}, "as PySpark's objects have it"


def test_lag_is_not_known_while_nobody_says_where_the_log_ends() -> None:
    """A broker that is away is not taken for one without news."""
    progress = {"endOffset": {"t": {"0-0": 30, "1-0": 5}}, "latestOffset": {"t": {"0-0": 100}}}
    assert lag_bytes(progress) == {TopicPartition("t", 0, 0): 70, TopicPartition("t", 1, 0): None}


def test_the_numbers_of_a_micro_batch() -> None:
    """Rows as Spark counts them, bytes as logs do; a partition that appeared had none read."""
    progress = {
        "numInputRows": 7,
        "startOffset": {"t": {"0-0": 10}},
        "endOffset": {"t": {"0-0": 30, "0-1": 500, "1-0": 5}, "": {"sinceMs": 1}},
        "latestOffset": {"t": {"0-0": 100, "0-1": 500}},
    }
    assert source_metrics(progress) == (7, 20, 70, 1)
    assert source_metrics({**progress, "startOffset": None}).bytes == 0


def test_what_stands_beside_topics_is_no_offset() -> None:
    """A stream's offsets can be given to a group, or as startingOffsets, as they are."""
    marked = mark({"t": {"0-0": 1}}, 123, {"t": {"0-0": [1, 7]}})
    assert from_json(json.dumps(marked)) == {TopicPartition("t", 0, 0): 1}
    assert since_ms_of(marked) == 123
    assert log_checks_of(marked) == {"t": {"0-0": [1, 7]}}
    assert mark({"t": {"0-0": 1}}, None, {}) == {"t": {"0-0": 1}}
    assert since_ms_of({}) is None
