"""Reports about files of schemas: what stands before the JSON, and types of other files."""

from __future__ import annotations

import json

import pytest

from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.schema_files import file_text
from kafka2011.events.schemas import HEADER, EventSchema, event_schema

VIEW = event_schema("View", {"name": "url", "type": "string"})
LICENCE = "/* Licensed to somebody\n * under a licence. */\n"


@pytest.mark.parametrize("head", [LICENCE, "// A licence.\n", LICENCE + "// and more\n"])
def test_a_licence_at_the_head_is_left_out(head: str) -> None:
    """Report apache/gobblin and divolte-collector: files that Java's library takes are no JSON to others."""
    assert EventSchema(head + json.dumps(VIEW.document, indent=2)) == VIEW


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_of_windows_editors_are_read(encoding: str) -> None:
    """Report AbsaOSS/ABRiS: a byte order mark is an unexpected character in line 1, which nobody sees."""
    assert EventSchema(file_text(VIEW.text.encode(encoding))) == VIEW


def test_a_type_of_another_file_is_asked_for_by_its_name() -> None:
    """Report lsst/alert_packet: an alert names types that lie in files of their own; the error named none of them."""
    source = {"type": "record", "name": "sky.Source", "fields": [{"name": "ra", "type": "double"}]}
    fields = [
        *HEADER,
        {"name": "source", "type": "Source"},
        {"name": "all", "type": {"type": "array", "items": "Source"}},
    ]
    text = json.dumps({"type": "record", "name": "Alert", "namespace": "sky", "fields": fields})
    with pytest.raises(
        InvalidSchemaError, match=r"type sky.Source is not defined: give the file .* with --reference FILE"
    ):
        EventSchema(text)
    schema = EventSchema.with_references(text, [json.dumps(source)])
    assert schema.document["fields"][4]["type"] == {**source, "name": "Source", "namespace": "sky"}
    assert schema.document["fields"][5]["type"]["items"] == "sky.Source"
