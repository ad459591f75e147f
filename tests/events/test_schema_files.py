"""Files of schemas as people have them."""

from __future__ import annotations

import codecs
import json
from typing import Any

import pytest

from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.schema_files import file_text, schema_json
from kafka2011.events.schemas import HEADER, EventSchema, event_schema

VIEW = event_schema("View", {"name": "url", "type": "string", "doc": "// no comment /* here */ \\"})
PLAIN = json.dumps(VIEW.document, indent=2)

COMMENTED = {
    "a licence": f'/* Licensed to somebody\n * under a "licence".\n */\n{PLAIN}',
    "lines": f"// a licence,\n// of two lines\n{PLAIN}",
    "within": PLAIN.replace('"fields": [', '"fields": [ // the header\n /* of "all" events */'),
    "at the end": f"{PLAIN}\n// the end",
    "a mark of the byte order": f"\ufeff{PLAIN}",
    "a mark and a comment": f"\ufeff/* a licence */{PLAIN}",
}


@pytest.mark.parametrize("case", COMMENTED)
def test_comments_are_left_out_as_by_javas_library(case: str) -> None:
    schema = EventSchema(COMMENTED[case])
    assert schema == VIEW
    assert "licence" not in schema.text


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_a_byte_order_mark_says_how_a_file_is_read(mark: bytes, encoding: str) -> None:
    assert file_text(mark + "größe 日本".encode(encoding)) == "größe 日本"


def test_a_file_in_another_encoding_is_refused_with_the_place() -> None:
    with pytest.raises(InvalidSchemaError, match="byte 0xe9 at line 2, column 5 is not UTF-8: save the file as UTF-8"):
        file_text('{\n"caf\u00e9"}'.encode("latin-1"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON: Expecting value: line 1 column 1"),
        ("/* a\nlicence */ { oops }", "not JSON: Expecting property name .*: line 2 column 14"),
        ("/* no end {}", "not JSON"),
        ('@namespace("shop")\nprotocol Shop { record View { string url; } }', "this is Avro IDL and no JSON"),
        ("// a licence\nprotocol Shop { }", "this is Avro IDL and no JSON"),
        ("namespace shop;\nschema View;", "this is Avro IDL and no JSON"),
    ],
)
def test_what_is_no_json_is_refused_with_its_line_and_column(text: str, why: str) -> None:
    with pytest.raises(InvalidSchemaError, match=why):
        schema_json(text)
    with pytest.raises(InvalidSchemaError, match=why):
        EventSchema(text)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([VIEW.document], "is a record, and this is a list of 1: give the record alone"),
        ({"protocol": "Shop", "types": [VIEW.document]}, "is a record, and this is a protocol"),
        ("string", "is a record"),
        ({"type": "map", "values": "int"}, "is a record"),
    ],
)
def test_json_that_is_no_record_is_refused(document: Any, why: str) -> None:
    with pytest.raises(InvalidSchemaError, match=why):
        EventSchema(json.dumps(document))


# Types of other files -------------------------------------------------------------------------------------------------

MONEY = {"type": "record", "name": "Money", "namespace": "bank", "fields": [{"name": "cents", "type": "long"}]}
COLOUR = {"type": "enum", "name": "shop.Colour", "symbols": ["RED"]}
LINE = {
    "type": "record",
    "name": "Line",
    "namespace": "shop",
    "fields": [{"name": "price", "type": "bank.Money"}, {"name": "colour", "type": ["null", "Colour"]}],
}


def order(*fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [*HEADER, *fields], **more})


def of(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def alone(kind: Any, **names: Any) -> Any:
    """Return a type as a schema that stands alone has it: with a short name and its namespace."""
    return {**kind, **names}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_type_of_another_file_is_written_at_its_first_use(reverse: bool) -> None:
    """Files may name types of one another, and be given in any order; a later use is a name."""
    text = order(of("first", "Line"), of("more", {"type": "array", "items": "shop.Line"}), of("fee", "bank.Money"))
    references = [json.dumps(each) for each in (MONEY, COLOUR, LINE)]
    schema = EventSchema.with_references(text, references[:: -1 if reverse else 1])
    colour = alone(COLOUR, name="Colour", namespace="shop")
    line = {**LINE, "fields": [of("price", MONEY), of("colour", ["null", colour])]}
    fields = schema.document["fields"][4:]
    assert fields == [of("first", line), of("more", {"type": "array", "items": "shop.Line"}), of("fee", "bank.Money")]
    assert EventSchema(schema.text) == schema


def test_a_file_may_hold_several_types_or_define_them_within() -> None:
    whole = {**LINE, "fields": [of("price", MONEY), of("colour", COLOUR)]}
    for references in ([[MONEY, COLOUR, LINE]], [whole], [[MONEY, whole], COLOUR]):
        texts = [json.dumps(each) for each in references]
        schema = EventSchema.with_references(order(of("fee", "bank.Money"), of("line", "Line")), texts)
        assert schema.document["fields"][4] == of("fee", MONEY)
        assert schema.document["fields"][5]["type"]["fields"][0] == of("price", "bank.Money")


def test_a_type_without_a_namespace_keeps_none() -> None:
    plain = {"type": "enum", "name": "Plain", "symbols": ["A"]}
    schema = EventSchema.with_references(order(of("p", "Plain")), [json.dumps(plain)])
    assert schema.document["fields"][4]["type"] == {**plain, "namespace": ""}


def test_a_type_within_itself_is_written_once() -> None:
    tree = {"type": "record", "name": "shop.Tree", "fields": [of("next", ["null", "Tree"])]}
    schema = EventSchema.with_references(order(of("tree", "Tree")), [json.dumps(tree)])
    assert schema.document["fields"][4]["type"]["fields"] == [of("next", ["null", "shop.Tree"])]


def test_files_that_nobody_needs_change_nothing() -> None:
    assert EventSchema.with_references(VIEW.text, [json.dumps(MONEY)]) == VIEW


@pytest.mark.parametrize(
    ("text", "references", "why"),
    [
        (
            order(of("line", "Line")),
            [],
            "record Order: type shop.Line is not defined: give the file that .* --reference",
        ),
        (order(of("line", "Line")), [LINE], "type bank.Money is not defined"),
        (order(of("line", "other.Line")), [LINE, MONEY, COLOUR], "type other.Line is not defined"),
        (order(of("a", "Late"), of("b", {**COLOUR, "name": "Late"})), [], "type shop.Late is not defined"),
        (
            order(of("m", "bank.Money")),
            [MONEY, {**MONEY, "fields": []}],
            "type bank.Money is defined twice, in different",
        ),
        (order(of("m", {**MONEY, "fields": []})), [MONEY], "type bank.Money is defined twice"),
        (order(of("m", "bank.Money")), [{"type": "record"}], "not Avro schemas"),
        (order(of("m", "bank.Money")), ["string"], "type bank.Money is not defined"),
    ],
)
def test_names_that_no_file_defines_and_names_of_two_types_are_refused(
    text: str, references: list[Any], why: str
) -> None:
    texts = [json.dumps(each) for each in references]
    with pytest.raises(InvalidSchemaError, match=why):
        EventSchema.with_references(text, texts) if texts else EventSchema(text)
