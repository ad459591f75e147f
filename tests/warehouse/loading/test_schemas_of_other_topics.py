"""Events that name schemas of other topics: a load looks these up, and reads no others."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.events.codec import EventEncoder
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema
from kafka2011.warehouse.loading import load_job
from kafka2011.warehouse.loading.load_job import LoadJob, TaskResult, UnansweredTask
from kafka2011.warehouse.rows.decode import BatchDecoder
from tests.support.schema_life import TOPIC, SchemaLife, batch_of, field, thing
from zk.errors import ZkUnavailable
from zk.schemas import SchemaNodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

OWN = thing(field("a", "int"))
OTHER = event_schema("Thing", {"name": "a", "type": "int"}, {"name": "more", "type": "string", "default": ""})
ABSENT = event_schema("Thing", {"name": "a", "type": "int"}, {"name": "nobody", "type": "int"})


def payload(schema: EventSchema, **fields: Any) -> bytes:
    event = {"time": 1, "published_at": 2, "server": "s", "id": str(uuid.uuid4()), **fields}
    return EventEncoder(KnownSchemas({TOPIC: schema})).encode(TOPIC, event)


@pytest.fixture
def life(tmp_path: Path) -> SchemaLife:
    """Give a topic with one schema; another topic of its registry has another one."""
    life = SchemaLife(tmp_path)
    life.register(OWN)
    life.registry.register("others", OTHER)
    for number in range(5):
        life.registry.register(f"foreign{number}", thing(field(f"f{number}", "int")))
    return life


@pytest.fixture
def job(life: SchemaLife, monkeypatch: pytest.MonkeyPatch) -> LoadJob:
    """Give a job whose tasks are lists of batches of payloads."""

    class Reader:
        def __init__(self, batches: list[list[bytes]], _: Any) -> None:
            self._batches = batches

        def batches(self) -> Iterator[pa.RecordBatch]:
            yield from map(batch_of, self._batches)

    monkeypatch.setattr(load_job, "RangeReader", Reader)
    decoder = BatchDecoder(TOPIC, life.registry.of_topic(TOPIC).known(TOPIC), 1)
    reading: Any = None
    return LoadJob(TOPIC, reading, decoder, life.table.output(life.table.begin()), 1)


def task(*batches: list[bytes]) -> Any:
    return [(list(batches),)]


def files_below(life: SchemaLife) -> list[Path]:
    return [path for path in Path(life.warehouse).rglob("*") if path.is_file() and "_delta_log" not in path.parts]


def test_a_task_names_what_it_cannot_answer_and_leaves_no_file(life: SchemaLife, job: LoadJob) -> None:
    """It has written rows and refused messages before it meets the first of them."""
    good, bad = payload(OWN, a=1), b"garbage"
    batches = [good, bad], [payload(OTHER, a=2)], [payload(ABSENT, a=3, nobody=1), good, bad]
    result = job(task(*batches))
    assert isinstance(result, UnansweredTask)
    assert result.fingerprints == {OTHER.fingerprint, ABSENT.fingerprint}
    assert files_below(life) == []
    answers = life.registry.answers(result.fingerprints)
    assert answers.found == (OTHER,)
    assert answers.absent == {ABSENT.fingerprint}
    again = pickle.loads(pickle.dumps(job.with_answers(answers)))(result.task)
    assert isinstance(again, TaskResult)
    assert sum(run.rows for run in again.runs) == 3
    assert sum(run.rows for run in again.refused) == 3


def test_a_task_of_the_topics_own_schemas_runs_once(job: LoadJob) -> None:
    result = job(task([payload(OWN, a=1)], [b"garbage"]))
    assert isinstance(result, TaskResult)


def test_schemas_of_other_topics_are_not_read(life: SchemaLife) -> None:
    """Neither to decode the topic's own events, nor to look up one of another topic."""
    life.send(OWN, {"a": 1})
    life.client.calls.clear()
    assert life.load() == []
    life.registry.answers([OTHER.fingerprint])
    read = {path for call, path in life.client.calls if path.startswith("/schemas")}
    assert read <= {
        *(f"/schemas/topics/{TOPIC}", f"/schemas/topics/{TOPIC}/1", f"/schemas/retired/{TOPIC}"),
        f"/schemas/fingerprints/{OTHER.fingerprint}",
    }


def test_a_redrive_looks_up_schemas_of_other_topics(life: SchemaLife) -> None:
    """A fingerprint that nobody has registered stays in quarantine until somebody has."""
    life.log += [payload(OTHER, a=2), payload(ABSENT, a=3, nobody=1), payload(OWN, a=4)]
    [why] = life.load()
    assert "is not registered" in why
    assert life.redrive() == 0
    life.registry.register("others", ABSENT, force=True)
    assert life.redrive() == 1
    assert life.rows() == [{"a": 2}, {"a": 3}, {"a": 4}]


def test_a_redrive_without_zookeeper_fails_and_changes_nothing(
    life: SchemaLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.log.append(payload(ABSENT, a=3, nobody=1))
    assert len(life.load()) == 1
    version = life.table.delta().version()

    def text_of(*_: Any) -> None:
        raise ZkUnavailable("ZooKeeper does not answer")

    monkeypatch.setattr(SchemaNodes, "text_of", text_of)
    with pytest.raises(ZkUnavailable):
        life.redrive()
    assert life.table.delta().version() == version
