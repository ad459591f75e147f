"""What a load shows of itself."""

from __future__ import annotations

from typing import Any

from kafka2011.errors import KafkaError
from kafka2011.metrics.loads import LOAD_METRICS, TIMES, LoadProgress
from kafka2011.warehouse.loading.loader import Round
from kafka2011.warehouse.loading.topic_load import Loaded
from zk.cluster import TopicPartition

WHERE = TopicPartition("views", 3, 1)


def by_name(progress: LoadProgress) -> dict[tuple[str, ...], Any]:
    samples = progress.samples()
    assert set(samples) == set(LOAD_METRICS)
    return {
        (metric.name.removeprefix("kafka2011_load_"), *labels): value
        for metric, numbers in samples.items()
        for labels, value in numbers.items()
    }


def test_loads_add_up_and_a_failure_is_seen_until_the_topic_is_loaded() -> None:
    """Rows only grow, the time up to which all is there is that of the last load that did not fail."""
    progress = LoadProgress()
    assert progress.obstacle is None
    first = Loaded("views", 0, 5, 1, 100, 7, away=(WHERE,), offsets={WHERE: 100})
    progress.note(Round((first,), {}), 1000.0, 2.0)
    progress.note(Round((), {"views": KafkaError("no"), "clicks": KafkaError("no")}), 2000.0, 1.0)
    found = by_name(progress)
    assert progress.obstacle == "not loaded: views, clicks"
    assert (found["topic_failed", "views"], found["topic_failed", "clicks"]) == (1, 1)
    assert found["complete_timestamp_seconds", "views"] == 1000
    assert found["away_partitions", "views"] == 1
    assert found["lost_bytes_total", "views"] == 7
    assert found["offset_bytes", "views", "3", "1"] == 100
    progress.note(Round((Loaded("views", 1, 2, 0, 50, offsets={WHERE: 150}), Loaded("clicks")), {}), 3000.0, 40.0)
    found = by_name(progress)
    assert progress.obstacle is None
    assert found["rows_total", "views"] == 7
    assert found["quarantined_messages_total", "views"] == 1
    assert found["read_bytes_total", "views"] == 150
    assert found["away_partitions", "views"] == found["topic_failed", "views"] == 0
    assert found["complete_timestamp_seconds", "views"] == found["complete_timestamp_seconds", "clicks"] == 3000
    assert found["rounds_total",] == 3
    took = progress.samples()[TIMES][()]
    assert not isinstance(took, float)
    assert (took.at_most[-1], took.total) == (3, 43)
