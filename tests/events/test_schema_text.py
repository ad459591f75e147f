"""What a new schema's text may not say."""

from __future__ import annotations

import json

import pytest

from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.schema_text import check_text
from kafka2011.events.schemas import EventSchema
from tests.support.schema_texts import REFUSED, TAKEN, with_field


@pytest.mark.parametrize("case", REFUSED)
def test_a_text_that_other_libraries_do_not_take_is_refused_with_its_place(case: str) -> None:
    field, why = REFUSED[case]
    schema = EventSchema(json.dumps(with_field(field)))
    with pytest.raises(InvalidSchemaError, match=f"record shop.Order: .*{why}"):
        check_text(schema)


@pytest.mark.parametrize("case", TAKEN)
def test_a_text_that_is_right_is_taken(case: str) -> None:
    check_text(EventSchema(json.dumps(with_field(TAKEN[case][0]))))


def test_a_field_of_the_record_itself_is_named_without_a_path() -> None:
    """The same holds of the schema's own aliases."""
    schema = EventSchema(json.dumps({**with_field({"name": "f", "type": "int"}), "aliases": ["a b"]}))
    with pytest.raises(InvalidSchemaError, match='the alias "a b" of the type at the top is no name'):
        check_text(schema)
