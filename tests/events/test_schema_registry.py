"""The schema registry, over znodes in memory."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from kazoo import exceptions as kazoo_errors

from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    UnansweredSchemaError,
    UndecodableEventError,
    UnknownSchemaError,
)
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import EventSchema, event_schema
from kafka2011.message.topic import InvalidTopicError
from tests.support.clocks import ManualClock
from tests.support.zk_in_memory import ZkClientInMemory
from zk.errors import MalformedNode, ZkUnavailable
from zk.nodes import Nodes
from zk.schemas import SchemaNodes

if TYPE_CHECKING:
    from zk.client import ZkClient


def view(*fields: dict[str, Any], doc: str = "") -> EventSchema:
    return event_schema("View", {"name": "url", "type": "string"}, *fields, doc=doc)


V1 = view()
V2 = view({"name": "status", "type": ["null", "int"], "default": None})
V3 = view({"name": "member", "type": "long", "default": -1})
BROKEN = event_schema("View", {"name": "url", "type": "long"})


def registry(client: ZkClientInMemory, clock: ManualClock | None = None) -> SchemaRegistry:
    as_client: ZkClient = client  # type: ignore[assignment]
    return SchemaRegistry(as_client, clock or ManualClock())


def test_a_topics_schemas_are_numbered_from_1() -> None:
    """Registering gives the next number; every process finds the same list, and the newest."""
    client = ZkClientInMemory()
    assert [registry(client).register("views", each).number for each in (V1, V2)] == [1, 2]
    assert registry(client).schemas("views") == [(1, V1), (2, V2)]
    assert registry(client).newest("views") == V2
    assert registry(client).topics() == ["views"]


def test_what_is_registered_again_keeps_its_number() -> None:
    """An old program that starts again registers its schema as ever, and changes nothing."""
    client = ZkClientInMemory()
    at_work = registry(client)
    for each in (V1, V2):
        at_work.register("views", each)
    assert at_work.register("views", V1.text) == (1, V1)
    assert at_work.newest("views") == V2


def test_schemas_of_one_fingerprint_are_kept_apart_in_the_list() -> None:
    """A new text for people changes no bytes: the fingerprint stands for the first one, the list has both."""
    client = ZkClientInMemory()
    told = view(doc="A page was seen.")
    assert told.fingerprint == V1.fingerprint
    assert [registry(client).register("views", each).number for each in (V1, told)] == [1, 2]
    assert registry(client).schema_of(V1.fingerprint) == V1


def test_each_fingerprint_is_looked_up_once() -> None:
    """Whoever decodes asks ZooKeeper once for each schema."""
    client = ZkClientInMemory()
    registry(client).register("views", V1)
    reading = registry(client)
    client.calls.clear()
    assert {reading.schema_of(V1.fingerprint) for _ in range(3)} == {V1}
    assert {reading.newest("views") for _ in range(3)} == {V1}
    assert len([call for call, _ in client.calls if call == "get"]) == 2


def test_a_snapshot_reads_and_parses_only_what_is_new() -> None:
    """A loader takes one before each load, and asks for the newest schema of its topic alone."""
    client = ZkClientInMemory()
    for topic in ("views", "clicks"):
        registry(client).register(topic, V1)
    reading = registry(client)
    before = reading.snapshot("views")
    with pytest.raises(UnknownSchemaError, match="clicks"):
        before.newest("clicks")
    registry(client).register("views", V2)
    client.calls.clear()
    after = reading.snapshot("views")
    assert after.newest("views") == reading.schemas("views")[-1].schema == V2
    assert after.schema_of(V1.fingerprint) is before.newest("views")
    assert sorted(path for call, path in client.calls if call == "get") == [
        f"/schemas/fingerprints/{V2.fingerprint}",
        "/schemas/topics/views/2",
    ]


def test_a_snapshot_has_all_schemas_and_pickles(caplog: pytest.LogCaptureFixture) -> None:
    """For Spark's executors, which ask nobody; a znode that somebody wrote by hand costs only itself."""
    client = ZkClientInMemory()
    at_work = registry(client)
    for each in (V1, V2):
        at_work.register("views", each)
    SchemaNodes(client).keep("0123456789abcdef", "{}")  # type: ignore[arg-type]
    snapshot, again = (pickle.loads(pickle.dumps(at_work.snapshot())) for _ in range(2))
    assert snapshot.newest("views") is again.newest("views")  # parsed once in a process
    assert [snapshot.schema_of(each.fingerprint) for each in (V1, V2)] == [V1, V2]
    assert snapshot.newest("views") == V2
    assert "0123456789abcdef cannot be used" in caplog.text
    with pytest.raises(UnknownSchemaError, match="0123456789abcdef"):
        snapshot.schema_of("0123456789abcdef")
    with pytest.raises(UnknownSchemaError, match="topic clicks has no schema"):
        snapshot.newest("clicks")


@pytest.mark.parametrize(("name", "data"), [("1", b"{not a schema"), ("1", b"\xff"), ("two", b"{}")])
def test_a_znode_that_is_no_schema_keeps_no_other_topic_from_a_snapshot(
    name: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own topic has no newest schema, and the log says why."""
    client = ZkClientInMemory()
    registry(client).register("views", V1)
    Nodes(client).create_with_parents(f"/schemas/topics/bad/{name}", data)  # type: ignore[arg-type]
    snapshot = registry(client).snapshot()
    assert snapshot.newest("views") == V1
    assert "The newest schema of topic bad cannot be used" in caplog.text
    with pytest.raises(UnknownSchemaError, match="bad"):
        snapshot.newest("bad")


def test_the_newest_schema_is_found_behind_one_that_is_none() -> None:
    """Loads and encoders need no other."""
    client = ZkClientInMemory()
    for each in (V1, V2):
        registry(client).register("views", each)
    client.tree["/schemas/topics/views/1"].data = b"{"
    assert registry(client).newest("views") == registry(client).snapshot().newest("views") == V2


@pytest.mark.parametrize("data", [b"{", b"\xff"])
def test_an_event_whose_schema_is_none_is_undecodable(data: bytes) -> None:
    """As one whose schema nobody has registered: the messages after it are decoded."""
    client = ZkClientInMemory()
    registry(client).register("views", V1)
    header = {"time": 1, "published_at": 2, "server": "w", "id": "0"}
    payload = EventEncoder(registry(client)).encode("views", {**header, "url": "/"})
    client.tree[f"/schemas/fingerprints/{V1.fingerprint}"].data = data
    with pytest.raises(UndecodableEventError, match="the schema cannot be used"):
        EventDecoder(registry(client)).decode_payload(payload)


def test_an_unknown_fingerprint_is_asked_for_again_after_a_while() -> None:
    """Not for every message of a topic that has many of it; but a schema that comes later is found."""
    client, clock = ZkClientInMemory(), ManualClock()
    reading = registry(client, clock)
    for _ in range(3):
        with pytest.raises(UnknownSchemaError, match=V1.fingerprint):
            reading.schema_of(V1.fingerprint)
    assert len(client.calls) == 1
    registry(client).register("views", V1)
    clock.now_s += 11
    assert reading.schema_of(V1.fingerprint) == V1


@pytest.mark.parametrize("data", [b"{", b"\xff"])
def test_a_znode_that_is_no_schema_is_asked_for_again_after_a_while(data: bytes) -> None:
    """Not for every message of a topic that has many of it; but once it is mended, that is found."""
    client, clock = ZkClientInMemory(), ManualClock()
    registry(client).register("views", V1)
    path = f"/schemas/fingerprints/{V1.fingerprint}"
    good, client.tree[path].data = client.tree[path].data, data
    client.calls.clear()
    reading = registry(client, clock)
    for _ in range(3):
        with pytest.raises((InvalidSchemaError, MalformedNode)):
            reading.schema_of(V1.fingerprint)
    assert len(client.calls) == 1
    client.tree[path].data = good
    clock.now_s += 11
    assert reading.schema_of(V1.fingerprint) == V1


def test_a_topic_without_schemas_says_so() -> None:
    """The error names the topic; the next question asks ZooKeeper again."""
    client = ZkClientInMemory()
    reading = registry(client)
    with pytest.raises(UnknownSchemaError, match="topic views has no schema"):
        reading.newest("views")
    reading.register("views", V1)
    assert reading.newest("views") == V1


def test_an_incompatible_schema_is_refused_unless_forced() -> None:
    """The error names topic, number and reason, and nothing is added."""
    client = ZkClientInMemory()
    at_work = registry(client)
    at_work.register("views", V1)
    with pytest.raises(IncompatibleSchemaError, match=r"topic views: .* schema 1 .* type mismatch"):
        at_work.register("views", BROKEN)
    assert len(at_work.schemas("views")) == 1
    assert at_work.register("views", BROKEN, force=True).number == 2


def test_a_schema_must_go_with_all_before_it_both_ways() -> None:
    """A field without a default cannot be read from older events; one that older readers need cannot go."""
    at_work = registry(ZkClientInMemory())
    at_work.register("views", V1)
    with pytest.raises(IncompatibleSchemaError, match="reader field missing default value: member"):
        at_work.register("views", view({"name": "member", "type": "long"}))
    with pytest.raises(IncompatibleSchemaError, match="with schema 1, events of the new one"):
        at_work.register("views", event_schema("View"))


def test_of_two_that_register_at_once_the_second_is_checked_against_the_first() -> None:
    """The number that both wanted goes to one; the other reads the list again, and is refused or gets the next."""
    client = ZkClientInMemory()
    at_work = registry(client)
    at_work.register("views", V1)

    def other_first(schema: EventSchema) -> None:
        def before(call: str, path: str) -> None:
            if (call, path) == ("create", "/schemas/topics/views/2"):
                client.before = lambda _call, _path: None
                registry(client).register("views", schema, force=True)

        client.before = before

    other_first(V2)
    assert at_work.register("views", V3) == (3, V3)
    client = ZkClientInMemory()
    at_work = registry(client)
    at_work.register("views", V1)
    other_first(BROKEN)
    with pytest.raises(IncompatibleSchemaError, match="schema 2"):
        at_work.register("views", V3)


def test_of_two_with_the_same_schema_both_get_the_same_number() -> None:
    """Many processes of one program start at once."""
    client = ZkClientInMemory()

    def before(call: str, path: str) -> None:
        if (call, path) == ("create", "/schemas/topics/views/1"):
            client.before = lambda _call, _path: None
            registry(client).register("views", V1)

    client.before = before
    assert registry(client).register("views", V1).number == 1
    assert len(registry(client).schemas("views")) == 1


def test_two_schemas_with_one_fingerprint_by_accident_are_refused() -> None:
    """64 bits can meet: the one that came first stays, and the second is not taken for it."""
    client = ZkClientInMemory()
    SchemaNodes(client).keep(V1.fingerprint, BROKEN.text)  # type: ignore[arg-type]
    with pytest.raises(IncompatibleSchemaError, match=f"{V1.fingerprint} stands for another schema"):
        registry(client).register("views", V1)


def test_without_zookeeper_it_says_so() -> None:
    """An outage is no unknown schema: nothing is remembered of it."""
    client = ZkClientInMemory()
    at_work = registry(client)
    at_work.register("views", V1)

    def lost(_call: str, _path: str) -> None:
        raise kazoo_errors.ConnectionLoss

    reading = registry(client)
    client.before = lost
    with pytest.raises(ZkUnavailable):
        reading.schema_of(V1.fingerprint)
    client.before = lambda _call, _path: None
    assert reading.schema_of(V1.fingerprint) == V1


@pytest.mark.parametrize("data", [b"{}", b'"string"', b"{", json.dumps({"type": "record"}).encode()])
def test_a_znode_that_is_no_schema_is_an_error(data: bytes) -> None:
    """Somebody wrote there by hand."""
    client = ZkClientInMemory()
    registry(client).register("views", V1)
    client.tree["/schemas/topics/views/1"].data = data
    with pytest.raises(InvalidSchemaError):
        registry(client).schemas("views")


def test_a_malformed_number_is_an_error() -> None:
    """No schema of a topic may be overlooked when a new one is checked."""
    client = ZkClientInMemory()
    registry(client).register("views", V1)
    Nodes(client).create("/schemas/topics/views/two", b"{}")  # type: ignore[arg-type]
    with pytest.raises(MalformedNode, match="views/two"):
        registry(client).register("views", V2)


def test_a_topic_that_cannot_be_is_refused() -> None:
    """Before anything is written."""
    client = ZkClientInMemory()
    with pytest.raises(InvalidTopicError):
        registry(client).register("a/b", V1)
    assert not client.calls


# Answers for processes without ZooKeeper ------------------------------------------------------------------------------


def test_fingerprints_are_answered_all_at_once_and_once() -> None:
    client = ZkClientInMemory()
    for schema in (V1, V2):
        registry(client).register("views", schema)
    reading = registry(client)
    client.calls.clear()
    for _ in range(2):
        answers = reading.answers([V1.fingerprint, V2.fingerprint, V3.fingerprint])
        assert set(answers.found) == {V1, V2}
        assert answers.absent == {V3.fingerprint}
    assert len(client.calls) == 3
    assert reading.schema_of(V1.fingerprint) == V1
    with pytest.raises(UnknownSchemaError):
        reading.schema_of(V3.fingerprint)
    assert len(client.calls) == 3


def test_an_answer_that_a_fingerprint_is_unknown_expires() -> None:
    client, clock = ZkClientInMemory(), ManualClock()
    reading = registry(client, clock)
    assert reading.answers([V1.fingerprint]).absent == {V1.fingerprint}
    registry(client).register("views", V1)
    clock.now_s += 9
    assert reading.answers([V1.fingerprint]).absent == {V1.fingerprint}
    clock.now_s += 2
    assert reading.answers([V1.fingerprint]) == ((V1,), frozenset())


@pytest.mark.parametrize("data", [b"{", b"\xff"])
def test_a_fingerprint_whose_znode_is_no_schema_counts_as_unknown(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    client = ZkClientInMemory()
    registry(client).register("views", V1)
    client.tree[f"/schemas/fingerprints/{V1.fingerprint}"].data = data
    assert registry(client).answers([V1.fingerprint]).absent == {V1.fingerprint}
    assert f"the schema of fingerprint {V1.fingerprint} cannot be used" in caplog.text


def test_without_zookeeper_no_fingerprint_is_answered() -> None:
    client = ZkClientInMemory()
    reading = registry(client)

    def lost(_call: str, _path: str) -> None:
        raise kazoo_errors.ConnectionLoss

    client.before = lost
    with pytest.raises(ZkUnavailable):
        reading.answers([V1.fingerprint])
    client.before = lambda _call, _path: None
    registry(client).register("views", V1)
    assert reading.answers([V1.fingerprint]).found == (V1,)


def test_an_unanswered_fingerprint_is_found_in_the_text_of_another_error() -> None:
    """As in what Spark says of a failed job; the error itself pickles."""
    error = UnansweredSchemaError([V1.fingerprint, V2.fingerprint])
    assert pickle.loads(pickle.dumps(error)).fingerprints == error.fingerprints
    text = f"Job aborted, task 0123456789abcdef\n  UnansweredSchemaError: {error}\n  at line 7 of 0123456789abcdef\n"
    assert UnansweredSchemaError.named_in(text) == {V1.fingerprint, V2.fingerprint}
    assert UnansweredSchemaError.named_in("another error of 0123456789abcdef") == frozenset()
