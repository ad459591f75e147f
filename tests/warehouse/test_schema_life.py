"""What becomes of a table when its topic's schema changes: each row of docs/reference/schema-changes.md."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kafka2011.events.columns.evolution import evolution_of
from kafka2011.events.compatibility import Compatibility, check_compatible
from kafka2011.events.errors import IncompatibleSchemaError, InvalidSchemaError
from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import OvertakenError
from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.history import COMPACTION
from tests.support.random_schemas import RandomSchema
from tests.support.schema_changes import CASES, MILLIS, REFUSED, changed, moment
from tests.support.schema_life import TOPIC, SchemaLife, field, thing

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENT = Path(__file__).parents[2] / "docs/reference/schema-changes.md"
NAMES = {"int64": "long", "list<element: double>": "array of double"}
LEVELS = (Compatibility.BACKWARD, Compatibility.FORWARD, Compatibility.FULL)


def documented() -> dict[str, list[str]]:
    """Return the cells of the table in the document, by change."""
    rows = [line.strip("|").split(" | ") for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in rows]
    first = next(number for number, row in enumerate(cells) if row[0] == "change of the schema")
    kept: dict[str, list[str]] = {}
    for change, *outcome in cells[first + 1 :]:
        if len(outcome) != 3:
            break
        kept[change] = outcome
    return kept


@pytest.fixture
def life(tmp_path: Path) -> SchemaLife:
    """Give a topic without schemas, and a warehouse without tables; nothing is remembered of other tests."""
    evolution_of.cache_clear()
    return SchemaLife(tmp_path)


def columns_in(path: str) -> list[tuple[str, str]]:
    """Return the columns of a file that come from fields, and their types."""
    names = ("time", "published_at", "server", "id")
    kept = (column for column in pq.read_schema(path) if column.name not in names)
    return [(column.name, str(column.type)) for column in kept if not column.name.startswith("kafka2011_")]


def was_rewritten(life: SchemaLife) -> bool:
    return any(COMPACTION in entry for entry in life.table.delta().history())


def test_the_document_and_these_tests_have_the_same_changes() -> None:
    assert sorted(documented()) == sorted([*CASES, *REFUSED])


@pytest.mark.parametrize("change", CASES)
def test_every_value_is_in_its_column_after_a_change(change: str, life: SchemaLife) -> None:
    """Also in a table that is rebuilt from the beginning, and no row is refused."""
    case = CASES[change]
    changed(life, case)
    assert life.rows() == case.rows
    assert life.rebuilt().rows() == (case.again or case.rows)
    column = documented()[change][0]
    if "rewritten" in column:
        columns = {column for path in life.table.delta().file_uris() for column in columns_in(path)}
        assert len(columns) == len(life.types()), columns
    [kind] = re.findall(r"`([^`]+)`", column) or [""]
    if kind:
        assert NAMES.get(life.types()["x"], life.types()["x"]) == kind
    assert was_rewritten(life) == ("rewritten" in column)


@pytest.mark.parametrize("change", REFUSED)
def test_what_has_no_place_waits_in_quarantine_for_a_schema_that_gives_it_one(change: str, life: SchemaLife) -> None:
    """Here one whose field has the old name as an alias."""
    old, new, old_value, new_value, reason = REFUSED[change]
    first, second = life.register(thing(field("x", old))), thing(field("x", new), field("z", "null", default=None))
    life.send(first, {"x": old_value})
    life.load()
    life.register(second)
    life.send(second, {"x": new_value})
    life.send(first, {"x": old_value})
    [why] = life.load()
    assert re.search(reason, why)
    assert life.redrive() == 0
    life.register(thing(field("y", new, aliases=["x"])))
    assert life.redrive() == 1
    expected = [{"x": old_value, "y": None}, {"x": None, "y": new_value}, {"x": old_value, "y": None}]
    assert life.rows() == life.rebuilt().rows() == expected


@pytest.mark.parametrize("change", [*CASES, *REFUSED])
def test_the_document_says_which_levels_allow_a_change(change: str) -> None:
    if change in CASES:
        old, new = thing(*CASES[change].old), thing(*CASES[change].new)
    else:
        old, new = (thing(field("x", kind)) for kind in REFUSED[change][:2])  # of one fingerprint, if it is a decimal
    allowed = []
    for level in LEVELS:
        try:
            check_compatible(new, [(1, old)], TOPIC, level)
        except IncompatibleSchemaError:
            continue
        allowed.append(str(level))
    assert documented()[change][2] == (", ".join(allowed) or "none")


def test_a_mended_union_makes_room_in_the_column_itself(life: SchemaLife) -> None:
    first = life.register(thing(field("x", "string")))
    second = thing(field("x", "long"))
    life.send(first, {"x": "a"})
    life.load()
    life.register(second)
    life.send(second, {"x": 5})
    assert len(life.load()) == 1
    life.register(thing(field("x", ["string", "long"])))
    assert life.redrive() == 1
    assert life.rows() == [{"x": '"a"'}, {"x": "5"}]


def test_a_long_that_a_double_would_round_stays_where_it_is(life: SchemaLife) -> None:
    """In a column that has one, doubles are refused; in a column of doubles, such longs are."""
    old, new = thing(field("x", "long")), thing(field("x", "double"))
    life.register(old)
    life.send(old, {"x": 2**53 + 1})
    life.load()
    life.register(new)
    life.send(new, {"x": 0.5})
    assert "double is no int64" in life.load()[0]
    assert life.rows() == [{"x": 2**53 + 1}]
    assert life.rebuilt().rows() == life.rows()
    again = SchemaLife(life.warehouse / "other", of=life)
    again.load()
    assert again.rows() == [{"x": 0.5}]
    assert again.types() == {"x": "double"}
    life.send(old, {"x": -(2**53)}, {"x": -(2**53) - 1})
    [reason] = again.load()
    assert "-9007199254740993 is beyond 2^53" in reason
    life.register(thing(field("y", "double", aliases=["x"])))
    assert life.load() == []
    assert life.redrive() == 1
    assert [row["y"] for row in life.rows()] == [None, 0.5, None, None]


def test_bytes_that_are_no_text_do_not_enter_a_column_of_text(life: SchemaLife) -> None:
    old, new = thing(field("x", "string")), thing(field("x", "bytes"))
    life.register(old)
    life.send(old, {"x": "a"})
    life.load()
    life.register(new)
    life.send(new, {"x": b"\xff"}, {"x": b"b"})
    assert "can't decode byte 0xff" in life.load()[0]
    assert life.rows() == [{"x": "a"}, {"x": "b"}]


def test_a_table_of_an_earlier_release_keeps_a_column_for_each_name(life: SchemaLife) -> None:
    """It gave a renamed field a column of its own, and goes on with both."""
    old, new = thing(field("x", "string")), thing(field("y", "string"))
    for schema, event in ((old, {"x": "old"}), (new, {"y": "new"})):
        life.register(schema)
        life.send(schema, event)
        life.load()
    later = SchemaLife(life.warehouse)
    for schema in (old, thing(field("y", "string", aliases=["x"]))):
        later.register(schema)
    later.log = life.log
    later.send(new, {"y": "newer"})
    assert later.load() == []
    assert later.rows() == [{"x": "old", "y": None}, {"x": None, "y": "new"}, {"x": None, "y": "newer"}]


def test_a_default_is_what_its_own_schema_means_by_it(life: SchemaLife) -> None:
    """Milliseconds, and bytes as text; bytes that are no text are no default of a column of text."""
    added = field("x", MILLIS, default=7), field("y", "bytes", default="b"), field("z", "bytes", default="\xff")
    old, new = thing(field("a", "int")), thing(field("a", "int"), *added)
    life.register(thing(field("y", "string"), field("z", "string"), field("a", "int", default=0)))
    life.register(old)
    life.register(new)
    life.send(old, {"a": 1})
    assert life.load() == []
    assert life.rows() == [{"a": 1, "x": moment(7000), "y": "b", "z": None}]


def test_a_rebuilt_table_settles_a_clash_of_types_as_the_topics_own_has(life: SchemaLife) -> None:
    """One in another warehouse goes by the newest schema: what programs write today."""
    old, new = thing(field("x", "string")), thing(field("x", "long"))
    life.register(old)
    life.send(old, {"x": "a"})
    life.load()
    life.register(new)
    life.send(new, {"x": 5})
    assert len(life.load()) == 1
    assert life.rebuilt().rows() == life.rows() == [{"x": "a"}]
    other = SchemaLife(life.warehouse / "other", of=life)
    assert len(other.load()) == 1
    assert other.rows() == [{"x": 5}]
    assert other.rebuilt().rows() == [{"x": 5}]


@settings(max_examples=8)
@given(st.integers(0, 2**64))
def test_a_table_that_lives_through_three_schemas_is_the_same_as_a_rebuilt_one(seed: int) -> None:
    """Whatever they are: each message is a row or in quarantine, and the same ones are."""
    evolution_of.cache_clear()
    try:
        made = RandomSchema(seed)
        schemas = [made.schema, made.evolved(), made.evolved()]
    except InvalidSchemaError:
        reject()
    if any(re.search(r'local-timestamp|"null"\]', schema.text.replace('["null", ', "")) for schema in schemas):
        reject()  # Delta has no columns for some of them
    with tempfile.TemporaryDirectory() as directory:
        life = SchemaLife(Path(directory))
        refused = []
        for schema in schemas:
            life.register(schema)
            life.log += made.payloads()
            refused += life.load()
        offsets = [row["kafka2011_offset"] for row in life.every_row()]
        assert len(offsets) + len(refused) == len(life.log)
        assert [row["kafka2011_offset"] for row in life.rebuilt().every_row()] == offsets


# While a column is rewritten ------------------------------------------------------------------------------------------


def due(life: SchemaLife) -> None:
    """Have the next load rewrite a column of two dates."""
    old, new = thing(field("x", "long")), thing(field("x", "double"))
    life.register(old)
    for day in (0, 1):
        life.send(old, {"x": day, "time": (day + 20_000) * 86_400_000_000})
        life.load()
    life.register(new)
    life.send(new, {"x": 0.5})


def test_a_load_that_comes_between_is_not_lost(life: SchemaLife) -> None:
    """Whoever decoded for the columns as they were begins again."""
    due(life)
    other = SchemaLife(life.warehouse, None, life)
    life.before_commit = other.load
    with pytest.raises(OvertakenError):
        life.load()
    assert [row["x"] for row in life.rows()] == [0.0, 1.0, 0.5]


def test_a_commit_of_narrower_columns_is_refused_after_they_were_rewritten(life: SchemaLife) -> None:
    """By a loader that did not know the newer schema yet."""
    due(life)
    late = SchemaLife(life.warehouse, None, life)
    late.log = life.log[:2]
    late.send(thing(field("x", "long")), {"x": 7})
    late.registry = _Frozen(late)  # type: ignore[assignment]
    late.before_commit = life.widen_alone
    with pytest.raises(OvertakenError, match="column x is double, and int64 in this commit"):
        late.load()


def test_a_load_that_dies_after_it_has_rewritten_is_repeated(life: SchemaLife) -> None:
    """Rows and offsets are as before; only the column is wider."""
    due(life)
    life.widen_alone()
    assert life.types() == {"x": "double"}
    assert [row["x"] for row in life.rows()] == [0.0, 1.0]
    version = life.table.delta().version()
    assert life.load() == []
    assert [row["x"] for row in life.rows()] == [0.0, 1.0, 0.5]
    assert life.table.delta().version() == version + 1


def test_text_is_rewritten_as_json_once(life: SchemaLife) -> None:
    """Though text and JSON text have one type: also if the load dies in between, and after a rollback."""
    old, new = thing(field("x", "string")), thing(field("x", ["string", "int"]))
    life.register(old)
    life.send(old, {"x": "5"})
    life.load()
    before = life.table.delta().version()
    life.register(new)
    life.send(new, {"x": 5})
    life.widen_alone()
    life.load()
    assert life.rows() == [{"x": '"5"'}, {"x": "5"}]
    life.send(new, {"x": "6"})
    life.load()
    assert life.rows() == [{"x": '"5"'}, {"x": "5"}, {"x": '"6"'}]
    life.table.delta().restore(before)
    life.table.settle_rollback(again=True)
    life.load()
    assert life.rows() == [{"x": '"5"'}, {"x": "5"}, {"x": '"6"'}]


def test_a_compaction_beside_it_is_taken_in(life: SchemaLife, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what it has written is rewritten again."""
    due(life)
    life.send(thing(field("x", "double")), {"x": 0.25})
    table = SchemaLife(life.warehouse, None, life).table
    real: Callable[..., None] = life.table.write_entry

    def write_entry(*args: Any) -> None:
        monkeypatch.undo()
        compact(table)
        real(*args)

    old = thing(field("x", "long"))
    late = SchemaLife(life.warehouse, None, life)
    late.log = [*life.log[:2]]
    late.send(old, {"x": 3, "time": 20_000 * 86_400_000_000})
    late.registry = _Frozen(late)  # type: ignore[assignment]
    late.load()
    life.log.insert(2, late.log[2])
    monkeypatch.setattr(life.table, "write_entry", write_entry)
    assert life.load() == []
    assert [row["x"] for row in life.rows()] == [0.0, 1.0, 3.0, 0.5, 0.25]
    assert open_table(life.warehouse, TOPIC).schema.field("x").type == pa.float64()


class _Frozen:
    """The registry as a loader has it that read it before the newest schema was there."""

    def __init__(self, life: SchemaLife) -> None:
        found = life.registry.of_topic(TOPIC)
        self._known = found._replace(in_use=found.in_use[:-1])

    def of_topic(self, _: str) -> Any:
        return self._known


# Retired schemas ------------------------------------------------------------------------------------------------------


def test_events_of_a_retired_schema_wait_until_it_is_used_again(life: SchemaLife) -> None:
    """Its column stays, and events of the other schemas become rows."""
    old, new = thing(field("a", "int")), thing(field("a", "int"), field("x", "int", default=1))
    for schema in (old, new):
        life.register(schema)
    life.send(new, {"a": 1, "x": 5})
    assert life.load() == []
    life.registry.retire(TOPIC, 2)
    life.send(new, {"a": 2, "x": 6})
    life.send(old, {"a": 3})
    [why] = life.load()
    assert "schema 2 of topic things is retired: `kafka2011 schemas retire things 2 --undo` takes it back" in why
    assert life.redrive() == 0
    assert life.types() == {"a": "int64", "x": "int64"}
    life.registry.restore(TOPIC, 2)
    assert life.redrive() == 1
    assert life.rows() == [{"a": 1, "x": 5}, {"a": 2, "x": 6}, {"a": 3, "x": None}]


def test_a_topic_whose_schemas_are_all_retired_has_no_rows(life: SchemaLife) -> None:
    only = life.register(thing(field("a", "int")))
    life.registry.retire(TOPIC, 1)
    life.send(only, {"a": 1})
    assert len(life.load()) == 1
    life.registry.restore(TOPIC, 1)
    assert life.redrive() == 1
    assert life.rows() == [{"a": 1}]


def test_a_retired_type_no_longer_excludes_another_one(life: SchemaLife) -> None:
    """The table has no column of it yet."""
    old, new = thing(field("x", "string")), thing(field("x", "long"))
    life.register(old)
    life.send(old, {"x": "a"})
    life.registry.retire(TOPIC, 1)
    assert life.registry.register(TOPIC, new).number == 2
    life.send(new, {"x": 5})
    assert len(life.load()) == 1
    assert life.rows() == [{"x": 5}]
