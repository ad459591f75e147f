"""What each level of compatibility asks of a topic's next schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.events.compatibility import Compatibility, check_compatible
from kafka2011.events.errors import IncompatibleSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import EventSchema, event_schema
from kafka2011.message.topic import InvalidTopicError
from tests.support.zk_in_memory import ZkClientInMemory
from zk.errors import MalformedNode
from zk.nodes import Nodes

if TYPE_CHECKING:
    from zk.client import ZkClient


def view(*fields: dict[str, Any]) -> EventSchema:
    return event_schema("View", *fields)


def field(kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": "n", "type": kind, **more}


SHORT, WIDE, WIDER = view(field("int")), view(field("long")), view(field("double"))
NONE = view()
WITH_DEFAULT = view(field("int", default=0))
ADDED = view(field("int"), {"name": "m", "type": "int"})


def allowed(*known: EventSchema, new: EventSchema) -> set[str]:
    """Return the levels that allow a schema after others."""
    found = set()
    for level in Compatibility:
        try:
            check_compatible(new, list(enumerate(known, 1)), "views", level)
        except IncompatibleSchemaError:
            continue
        found.add(str(level))
    return found


BACKWARD = {"backward", "backward_transitive"}
FORWARD = {"forward", "forward_transitive"}
ALL = {*BACKWARD, *FORWARD, "full", "full_transitive", "none"}


def test_backward_allows_what_reads_older_events() -> None:
    """Wider types, and removed fields."""
    assert allowed(SHORT, new=WIDE) == {*BACKWARD, "none"}
    assert allowed(SHORT, new=NONE) == {*BACKWARD, "none"}


def test_forward_allows_what_older_schemas_read() -> None:
    """Narrower types, and new fields."""
    assert allowed(WIDE, new=SHORT) == {*FORWARD, "none"}
    assert allowed(SHORT, new=ADDED) == {*FORWARD, "none"}


def test_full_asks_for_both() -> None:
    assert allowed(NONE, new=WITH_DEFAULT) == ALL
    assert allowed(SHORT, new=view(field("string"))) == {"none"}


def test_only_transitive_levels_ask_of_schemas_before_the_newest() -> None:
    """A type that was wide, and then narrow, may become wide again."""
    known = (view(field("string")), SHORT)
    assert allowed(*known, new=WIDER) == {"backward", "none"}
    assert allowed(*known, new=view(field("int"), {"name": "m", "type": "int", "default": 0})) == {
        *("backward", "forward", "full", "none")
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 3},
        ),
    ],
)
def test_another_unit_is_no_type_of_its_own_to_avro_and_refused_by_name(old: Any, new: Any) -> None:
    """Within a union and an array, too; a plain number may be called a time."""
    assert allowed(view(field(old)), new=view(field(new))) == {"none"}
    assert allowed(view(field(["null", old])), new=view(field(["null", new]))) == {"none"}
    in_array = [view(field({"type": "array", "items": kind})) for kind in (old, new)]
    assert allowed(in_array[0], new=in_array[1]) == {"none"}
    with pytest.raises(IncompatibleSchemaError, match="field n has another unit or scale than in schema 1"):
        check_compatible(view(field(new)), [(1, view(field(old)))], "views")
    assert allowed(view(field(old)), new=view(field(old), {"name": "m", "type": "int", "default": 0})) == ALL
    assert allowed(view(field("long")), new=view(field({"type": "long", "logicalType": "timestamp-millis"}))) == ALL


def registry(client: ZkClientInMemory) -> SchemaRegistry:
    as_client: ZkClient = client  # type: ignore[assignment]
    return SchemaRegistry(as_client)


def test_a_topic_has_the_level_that_was_set_last() -> None:
    """All processes see it; the default is back once it is removed."""
    client = ZkClientInMemory()
    assert registry(client).compatibility("views") is Compatibility.FULL_TRANSITIVE
    for level in (Compatibility.BACKWARD, Compatibility.NONE):
        registry(client).set_compatibility("views", level)
        assert registry(client).compatibility("views") is level
    assert registry(client).compatibility("clicks") is Compatibility.FULL_TRANSITIVE
    assert registry(client).topics() == []
    for _ in range(2):
        registry(client).set_compatibility("views", None)
    assert registry(client).compatibility("views") is Compatibility.FULL_TRANSITIVE
    with pytest.raises(InvalidTopicError):
        registry(client).set_compatibility("a/b", None)


def test_the_registry_asks_what_the_topics_level_asks() -> None:
    """And says which level refused a schema."""
    client = ZkClientInMemory()
    at_work = registry(client)
    at_work.register("views", SHORT)
    with pytest.raises(IncompatibleSchemaError, match=r"The topic's level is full_transitive; see .* views"):
        at_work.register("views", WIDE)
    at_work.set_compatibility("views", Compatibility.BACKWARD)
    assert at_work.register("views", WIDE).number == 2
    with pytest.raises(IncompatibleSchemaError, match="level is backward;"):
        at_work.register("views", SHORT.text.replace('"int"', '"string"'))


def test_a_level_that_nobody_knows_is_an_error_that_names_the_znode() -> None:
    """As a later release may write."""
    client = ZkClientInMemory()
    at_work = registry(client)
    at_work.register("views", SHORT)
    Nodes(client).create_with_parents("/schemas/compatibility/views", b"sideways")  # type: ignore[arg-type]
    with pytest.raises(MalformedNode, match="/schemas/compatibility/views: not one of none, backward"):
        at_work.register("views", WIDE)
    assert at_work.register("views", WIDE, force=True).number == 2
