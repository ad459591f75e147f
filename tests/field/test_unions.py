"""Reports about unions of records: a dict that is written as another record than was meant."""

from __future__ import annotations

from typing import Any

import pytest

from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.errors import UnencodableEventError
from kafka2011.events.schemas import KnownSchemas, event_schema

OWN = {"time": 1, "published_at": 2, "server": "web-1", "id": "0"}


def came_back(union: list[Any], value: Any) -> Any:
    """Return a value of a union as a reader gets it."""
    schema = event_schema("Payment", {"name": "paid", "type": union})
    known = KnownSchemas({"payments": schema})
    payload = EventEncoder(known).encode("payments", {**OWN, "paid": value})
    return EventDecoder(known).decode_payload(payload).fields["paid"]


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    kinds = [
        {"name": field, "type": "string", **({"default": default} if default else {})} for field, default in fields
    ]
    return {"type": "record", "name": name, "fields": kinds}


def test_no_field_is_invented() -> None:
    """Report fastavro #191: of two records the first is written, and a reader finds a value that nobody gave."""
    union = [record("Card", ("number", None), ("currency", "EUR")), record("Cash", ("number", None))]
    assert came_back(union, {"number": "1"}) == {"number": "1"}


def test_no_field_is_dropped() -> None:
    """Report fastavro #48: a record that lacks a field of the dict is written, and the field is lost."""
    union = [record("Cash", ("number", None)), record("Card", ("number", None), ("currency", "EUR"))]
    given = {"number": "1", "currency": "USD"}
    assert came_back(union, given) == given


def test_records_of_the_same_fields_need_a_name() -> None:
    """Report fastavro #807, and AVRO-1777: nothing says which of two equal records was meant, so the first one is."""
    union = [record("Card", ("number", None)), record("Cash", ("number", None))]
    with pytest.raises(UnencodableEventError, match="give a pair of the name and the dict"):
        came_back(union, {"number": "1"})
    assert came_back(union, ("kafka2011.Cash", {"number": "1"})) == {"number": "1"}


def test_a_field_that_is_a_union_of_records_decides_by_what_lies_within() -> None:
    """Report apache/gobblin, recursive_schema_2: records that hold unions of records; the outer one was refused."""
    inner = [record("Visa", ("visa", "no")), record("Amex", ("amex", "no"))]
    union = [
        {"type": "record", "name": "Card", "fields": [{"name": "by", "type": inner}]},
        {"type": "record", "name": "Cash", "fields": [{"name": "by", "type": record("Coin", ("coin", "no"))}]},
    ]
    assert came_back(union, {"by": {"coin": "yes"}}) == {"by": {"coin": "yes"}}
    assert came_back(union, {"by": {"amex": "yes"}}) == {"by": {"amex": "yes"}}
