"""The registry tries each new schema before it registers it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kafka2011.events.columns.trial import check_usable
from kafka2011.events.compatibility import Compatibility
from kafka2011.events.errors import ColumnError, InvalidSchemaError
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import EventSchema, event_schema
from tests.support.zk_in_memory import ZkClientInMemory
from zk.schemas import SchemaNodes

TWINS = {"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def thing(*fields: dict[str, Any]) -> EventSchema:
    return event_schema("Thing", *fields)


PLAIN = thing(field("a", "int", default=0))
UNFIT = thing(field("a", "int", default=0), field("x", ["null", TWINS], default=None))
MORE = thing(field("a", "int", default=0), field("b", "int", default=0))


@pytest.fixture
def client() -> Any:
    return ZkClientInMemory()


def write_unchecked(client: Any, number: int, schema: EventSchema) -> None:
    """Register a schema as an earlier release did."""
    nodes = SchemaNodes(client)
    nodes.keep(schema.fingerprint, schema.text)
    nodes.add("things", number, schema.text)


@pytest.mark.parametrize("force", [False, True])
def test_a_refused_schema_leaves_nothing_behind(force: bool, client: Any) -> None:
    registry = SchemaRegistry(client)
    with pytest.raises(ColumnError, match=r"topic things: kafka2011.Thing: field x: its fields a and A are one"):
        registry.register("things", UNFIT, force=force)
    with pytest.raises(ColumnError, match="field x"):
        registry.check("things", UNFIT, force=force)
    assert not [path for path in client.tree if path.startswith("/schemas")]


def test_a_registered_schema_keeps_its_number_and_is_never_refused(client: Any) -> None:
    write_unchecked(client, 1, UNFIT)
    registry = SchemaRegistry(client)
    assert registry.register("things", UNFIT) == (1, UNFIT)
    assert registry.check("things", UNFIT) == (1, UNFIT)


def test_an_old_unfit_schema_does_not_count_against_a_new_one(client: Any) -> None:
    write_unchecked(client, 1, UNFIT)
    assert SchemaRegistry(client).register("things", PLAIN).number == 2
    write_unchecked(client, 3, UNFIT)
    assert SchemaRegistry(client).register("things", MORE).number == 4


def test_names_that_differ_in_case_are_refused_across_schemas(client: Any) -> None:
    """Such a column is never in a table, so --force does not help."""
    registry = SchemaRegistry(client)
    registry.register("things", PLAIN)
    for force in (False, True):
        with pytest.raises(ColumnError, match=r"topic things: .*field A of schema 2: its column and a are one"):
            registry.register("things", thing(field("A", "int", default=0)), force=force)


def test_nested_names_that_differ_in_case_are_refused_across_schemas(client: Any) -> None:
    registry = SchemaRegistry(client)

    def within(name: str) -> EventSchema:
        kind = {"type": "record", "name": "R", "fields": [field(name, "int", default=0)]}
        return thing(field("x", ["null", {"type": "array", "items": kind}], default=None))

    registry.register("things", within("a"))
    with pytest.raises(
        ColumnError, match="field x of schema 2: its fields a and A are one to readers that ignore case"
    ):
        registry.register("things", within("A"))


def test_types_that_exclude_each_other_are_accepted_where_the_user_says_so(client: Any) -> None:
    """A table has a column for one of them; events of the other wait in quarantine."""
    registry = SchemaRegistry(client)
    registry.register("things", thing(field("x", "int")))
    assert registry.register("things", thing(field("x", "string")), force=True).number == 2
    registry.set_compatibility("things", Compatibility.NONE)
    assert registry.register("things", thing(field("x", "boolean"))).number == 3


def test_a_union_that_changes_within_is_refused_with_the_reason() -> None:
    """Avro's rules allow it, and the table has no column for both."""
    old, new = (thing(field("x", ["null", "int", kind], default=None)) for kind in ("string", "bytes"))
    with pytest.raises(ColumnError, match=r"topic things: .*field x of schema 2: a union of string and bytes"):
        check_usable(new, [(1, old)], "things")
    check_usable(new, [(1, old)], "things", may_exclude=True)


def test_a_new_default_that_costs_older_events_is_refused() -> None:
    late = field("at", {"type": "long", "logicalType": "timestamp-millis"}, default=2**60)
    with pytest.raises(ColumnError, match=r"field at: .* is a time outside of the years 1 to 9999"):
        check_usable(thing(field("a", "int", default=0), late), [(1, PLAIN)], "things")


@pytest.mark.parametrize(
    ("default", "kind"),
    [("C", {"type": "enum", "name": "E", "symbols": ["A"]}), ("abc", {"type": "fixed", "name": "F", "size": 2})],
)
def test_a_default_that_cannot_be_written_is_refused(default: str, kind: Any, client: Any) -> None:
    with pytest.raises(InvalidSchemaError):
        SchemaRegistry(client).register("things", thing(field("x", kind, default=default)))


def test_a_schema_is_tried_without_arrow() -> None:
    """So a machine that only publishes needs no extra for tables."""
    program = (
        "import sys; sys.modules['pyarrow'] = sys.modules['deltalake'] = None\n"
        "from kafka2011.events.columns.trial import check_usable\n"
        "from kafka2011.events.types import EVENT_TYPES\n"
        "for topic, schema in EVENT_TYPES.items(): check_usable(schema, [], topic)\n"
        "assert not [name for name in sys.modules if name.startswith('kafka2011.warehouse')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
