"""The trial of a schema before it is registered says the same as loads do."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import Schema
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kafka2011.events.codec import EventEncoder
from kafka2011.events.columns.evolution import evolution_of
from kafka2011.events.columns.held_columns import HeldColumns
from kafka2011.events.columns.sample_events import NoValueError, sample_events
from kafka2011.events.columns.trial import check_usable
from kafka2011.events.errors import ColumnError, InvalidSchemaError, UnencodableEventError
from kafka2011.events.schemas import EventSchema, KnownSchemas
from kafka2011.warehouse.rows.columns import OWN, held_in
from kafka2011.warehouse.rows.decode import BatchDecoder
from kafka2011.warehouse.table.compaction import compact
from tests.support.random_schemas import RandomSchema
from tests.support.schema_life import TOPIC, SchemaLife, batch_of, field, thing
from tests.support.unfit_schemas import ENDLESS, MILLIS, ODD, TWINS, UNFIT, nested, record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def life(tmp_path: Path) -> SchemaLife:
    evolution_of.cache_clear()
    return SchemaLife(tmp_path)


def samples(schema: EventSchema) -> list[bytes]:
    """Return sample events of a schema. Raises NoValueError, UnencodableEventError."""
    encoder = EventEncoder(KnownSchemas({TOPIC: schema}))
    return [encoder.encode(TOPIC, event) for event in sample_events(schema.writer)]


def is_loaded(life: SchemaLife, schema: EventSchema) -> bool:
    """Say whether a table gets a row for each sample event of the schema that was registered last."""
    try:
        life.log += samples(schema)
    except (NoValueError, UnencodableEventError):
        return False
    refused = life.load()
    compact(life.table)
    return not refused


@pytest.mark.parametrize("name", ODD)
def test_an_odd_schema_is_accepted_and_loaded(name: str, life: SchemaLife) -> None:
    """It is so in a new table, and in one that gets its columns later."""
    schema = thing(*ODD[name])
    life.register(thing(field("own", "int", default=0)))
    life.log += samples(thing(field("own", "int", default=0)))
    life.load()
    life.registry.register(TOPIC, schema, force=True)
    assert is_loaded(life, schema)
    again = SchemaLife(life.warehouse / "other", of=life)
    assert again.load() == []


@pytest.mark.parametrize("name", UNFIT)
def test_an_unfit_schema_is_refused_and_would_not_be_loaded(name: str, life: SchemaLife) -> None:
    fields, why = UNFIT[name]
    schema = thing(*fields)
    for force in (False, True):
        with pytest.raises((ColumnError, InvalidSchemaError)) as refused:
            life.registry.register(TOPIC, schema, force=force)
        assert re.search(why, str(refused.value)), refused.value
        assert life.registry.schemas(TOPIC) == []
    life.register_unchecked(schema)
    assert not is_loaded(life, schema)


Numbered = list[tuple[int, EventSchema]]


def is_usable(schema: EventSchema, known: Numbered) -> bool:
    try:
        check_usable(schema, known, TOPIC)
    except (ColumnError, InvalidSchemaError):
        return False
    return True


def decoder_of(known: Numbered, held: HeldColumns | None = None) -> BatchDecoder:
    decoder = BatchDecoder(TOPIC, KnownSchemas({TOPIC: known[-1][1]}, (), {TOPIC: known}), 1, held)
    Schema.from_arrow(decoder.schema)
    return decoder


def is_decoded(decoders: list[BatchDecoder], schema: EventSchema) -> bool:
    """Say whether each sample event of a schema is a row in what each decoder returns."""
    batch = batch_of(samples(schema))
    return not any(decoder.decode(batch)[1] for decoder in decoders)


def are_all_decoded(known: Numbered) -> bool:
    """Say whether a new table, and one that was loaded before the last schema, has rows for all schemas."""
    decoders = [decoder_of(known)]
    if known[:-1]:
        held = [column for column in decoder_of(known[:-1]).schema if column.name not in OWN.names]
        decoders.append(decoder_of(known, HeldColumns(held_in(held), known[-2][0])))
    try:
        return all(is_decoded(decoders, schema) for _, schema in known)
    except (NoValueError, UnencodableEventError):
        return False


def spoil(chance: random.Random) -> dict[str, Any]:
    """Return a field that may make a schema unfit, alone or beside those of another one."""
    value: Any = chance.choice("aAbB")
    kinds: list[dict[str, Any]] = [
        *(field("spoil", kind) for kind in (TWINS, {"type": "array", "items": TWINS}, ENDLESS)),
        field("spoil", nested(chance.randint(36, 54), "record")),
        field("spoil", nested(chance.randint(40, 60), "array")),
        field("spoil", nested(chance.randint(20, 40), "map")),
        field("spoil", MILLIS, default=chance.choice((5, 2**50, 2**60))),
        field(chance.choice(("FIELD0", "Field1", "date", "date_", "kafka2011_x")), "int", default=0),
        field("spoil", record("Spoil", field(value, "int", default=0)), default={}),
        field("spoil", ["null", *chance.sample(["long", "string", "boolean", TWINS], 2)], default=None),
        field("spoil", ["null", *chance.sample(["long", "bytes", "boolean"], 2)], default=None),
    ]
    return chance.choice(kinds)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**64))
def test_a_trial_says_of_any_schema_what_a_load_does_with_it(seed: int) -> None:
    """The schemas are random ones and what they may become; most get a field that may be unfit."""
    chance = random.Random(seed)
    made = RandomSchema(seed)
    known: Numbered = []
    for is_first in (True, False, False):
        try:
            fields = (made.schema if is_first else made.evolved()).document["fields"][4:]
            schema = thing(*fields, *([spoil(chance)] if chance.random() < 0.7 else []))
        except InvalidSchemaError:
            reject()
        numbered = (len(known) + 1, schema)
        if is_usable(schema, known) != are_all_decoded([*known, numbered]):
            raise AssertionError(f"{schema.text} after {[text.text for _, text in known]}")
        if is_usable(schema, known):
            known.append(numbered)
