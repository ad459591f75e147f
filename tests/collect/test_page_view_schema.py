"""The schema of page views goes with that of 0.2.0, so that collectors of both publish to one topic."""

from __future__ import annotations

import pytest

from kafka2011.events.compatibility import check_compatible
from kafka2011.events.schemas import EventSchema
from kafka2011.events.types import PAGE_VIEW

NEW = ("virtual_host", "forwarded_for", "duration_us", "rest", "other_fields")
OF_0_2_0 = EventSchema.of({**PAGE_VIEW.document, "fields": PAGE_VIEW.document["fields"][: -len(NEW)]})


def names_of(schema: EventSchema) -> list[str]:
    return [field["name"] for field in schema.document["fields"]]


def test_new_fields_are_optional_and_last() -> None:
    assert names_of(OF_0_2_0)[-1] == "parse_error"
    for field in PAGE_VIEW.document["fields"][-len(NEW) :]:
        assert (field["name"] in NEW, field["type"][0], field["default"]) == (True, "null", None)


@pytest.mark.parametrize(("first", "second"), [(PAGE_VIEW, OF_0_2_0), (OF_0_2_0, PAGE_VIEW)])
def test_either_schema_may_be_registered_after_the_other(first: EventSchema, second: EventSchema) -> None:
    check_compatible(second, [(1, first)], "views")
