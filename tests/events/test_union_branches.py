"""Which branch of a union a dict is written as."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.errors import UnencodableEventError
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.events.union_branches import branch_chooser

OWN = {"time": 1, "published_at": 2, "server": "web-1", "id": "0"}
INTS = {"type": "map", "values": "int"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


def record(name: str, *fields: dict[str, Any], kind: str = "record") -> dict[str, Any]:
    return {"type": kind, "name": name, "fields": list(fields)}


def needed(name: str, kind: Any = "int") -> dict[str, Any]:
    return {"name": name, "type": kind}


def optional(name: str, kind: Any = "int") -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def paid(name: str = "kind") -> dict[str, Any]:
    return {"name": name, "type": "string", "default": "paid"}


def sent(kind: Any, value: Any) -> tuple[Any, bytes]:
    """Return a value of a type as it comes back, and its bytes."""
    schema = event_schema("Event", {"name": "u", "type": kind})
    known = KnownSchemas({"events": schema})
    payload = EventEncoder(known).encode("events", {**OWN, "u": value})
    header = EventEncoder(KnownSchemas({"events": event_schema("Event")})).encode("events", OWN)
    return EventDecoder(known).decode_payload(payload).fields["u"], payload[len(header) :]


CHOSEN: dict[str, tuple[list[Any], Any, int]] = {
    "the other has more, with defaults": ([record("A", needed("x"), paid()), record("B", needed("x"))], {"x": 1}, 1),
    "the first is exact, the other has more": (
        [record("A", needed("x")), record("B", needed("x"), paid())],
        {"x": 1},
        0,
    ),
    "the first has a part of it": (
        [record("A", needed("x")), record("B", needed("x"), optional("z"))],
        {"x": 1, "z": 5},
        1,
    ),
    "all fields of both have defaults": ([record("A", paid("a")), record("B", paid("b"))], {"b": "x"}, 1),
    "one has types that do not fit": ([record("A", needed("v")), record("B", needed("v", "long"))], {"v": 2**40}, 1),
    "a record within decides": (
        [
            record("A", needed("in", record("A1", needed("x"), paid()))),
            record("B", needed("in", record("B1", needed("x")))),
        ],
        {"in": {"x": 1}},
        1,
    ),
    "a union within decides": (
        [
            record("A", needed("in", [record("A1", optional("p")), record("A2", optional("q"))])),
            record("B", needed("in", record("B1", optional("r")))),
        ],
        {"in": {"r": 4}},
        1,
    ),
    "an array within decides": (
        [
            record("A", needed("in", {"type": "array", "items": record("A1", needed("x"), paid())})),
            record("B", needed("in", {"type": "array", "items": record("B1", needed("x"))})),
        ],
        {"in": [{"x": 1}]},
        1,
    ),
    "a decimal within decides": (
        [record("A", needed("v", DECIMAL)), record("B", needed("v", {**DECIMAL, "precision": 9}))],
        {"v": Decimal("12345.67")},
        1,
    ),
    "a map takes what no record has": ([record("A", optional("x")), INTS], {"k": 1}, 1),
    "a record goes before a map": ([INTS, record("A", needed("x"))], {"x": 1}, 1),
    "a map goes before defaults": ([record("A", needed("x"), paid()), INTS], {"x": 1}, 1),
    "an empty map goes before defaults": ([record("A", paid()), INTS], {}, 1),
    "null and a text beside": (
        ["null", "string", record("A", needed("x"), paid()), record("B", needed("x"))],
        {"x": 1},
        3,
    ),
    "an error is a record": (
        [record("A", needed("x"), paid(), kind="error"), record("B", needed("x"), kind="error")],
        {"x": 1},
        1,
    ),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_a_dict_is_written_as_the_branch_that_it_fits_best(case: str) -> None:
    union, value, branch = CHOSEN[case]
    found, data = sent(union, value)
    assert data[0] == branch << 1
    if value:
        assert found.keys() >= value.keys()


AROUND: dict[str, tuple[Any, Any]] = {
    "an array": (lambda union: {"type": "array", "items": union}, lambda value: [value]),
    "a map": (lambda union: {"type": "map", "values": union}, lambda value: {"k": value}),
    "a record": (lambda union: record("Outer", needed("in", union)), lambda value: {"in": value}),
    "a union": (lambda union: ["null", record("Outer", needed("in", union))], lambda value: {"in": value}),
    "several": (
        lambda union: ["null", {"type": "array", "items": {"type": "map", "values": union}}],
        lambda value: [{"k": value}],
    ),
}


@pytest.mark.parametrize("where", AROUND)
def test_a_branch_is_chosen_wherever_the_union_stands(where: str) -> None:
    kind, wrapped = AROUND[where]
    for value in ({"x": 1}, {"k": 2}, {"x": 1, "kind": "free"}):
        union = [record("A", needed("x"), paid()), record("B", needed("x")), INTS]
        assert sent(kind(union), wrapped(value))[0] == wrapped(value)


SAME = [record("A", needed("x")), record("B", needed("x"))]
AMBIGUOUS: dict[str, tuple[list[Any], Any, str]] = {
    "records with the same fields": (
        SAME,
        {"x": 1},
        "field u: .* kafka2011.A and kafka2011.B: give a pair of the name",
    ),
    "both with defaults": (
        [record("A", needed("x"), paid()), record("B", needed("x"), optional("n"))],
        {"x": 1},
        "A and",
    ),
    "within a field": ([record("Outer", needed("in", SAME)), "null"], {"in": {"x": 1}}, "field u.in: "),
    "within an array": ([{"type": "array", "items": SAME}, "null"], [{"x": 1}], r"field u\[\]: "),
    "within a map": ([{"type": "map", "values": SAME}, "null"], {"k": {"x": 1}}, r"field u{}: "),
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_a_dict_that_fits_several_branches_alike_is_refused_with_the_names_to_give(case: str) -> None:
    union, value, why = AMBIGUOUS[case]
    with pytest.raises(UnencodableEventError, match=why):
        sent(union, value)


def test_a_pair_names_the_branch() -> None:
    """The full name of the record, or `map`; also where the dict fits others better, and at each level."""
    assert sent(SAME, ("kafka2011.B", {"x": 7})) == ({"x": 7}, b"\x02\x0e")
    assert sent([record("A", paid()), INTS], ("kafka2011.A", {})) == ({"kind": "paid"}, b"\x00\x08paid")
    assert sent([record("A", paid()), INTS], ("map", {}))[0] == {}
    within = record("In", needed("in", [*SAME, "null"]))
    found, data = sent(["null", within], {"in": ("kafka2011.B", {"x": 7})})
    assert (found, data) == ({"in": {"x": 7}}, b"\x02\x02\x0e")
    with pytest.raises(
        UnencodableEventError, match=r"field u: kafka2011.C is no type of the union, which has kafka2011.A, kafka2011.B"
    ):
        sent(SAME, ("kafka2011.C", {"x": 7}))


def test_a_dict_that_fits_no_branch_is_refused() -> None:
    for value in ({"y": 1}, {"x": "text"}, {"x": 1, "y": 2}, {}, 5):
        with pytest.raises(UnencodableEventError):
            sent(SAME, value)


def test_an_event_is_not_changed_and_schemas_without_a_choice_cost_nothing() -> None:
    parsed = event_schema("Event", {"name": "u", "type": [*SAME, INTS]}).writer
    event = {**OWN, "u": {"k": 1}}
    choose = branch_chooser(parsed)
    assert choose is not None
    assert choose(event)["u"] == ("map", {"k": 1})
    assert event["u"] == {"k": 1}
    for kind in (["null", record("A", needed("x"))], ["null", INTS, "string"], INTS, "int"):
        assert branch_chooser(event_schema("Event", {"name": "u", "type": kind}).writer) is None


def test_records_within_themselves_are_fitted_once_at_each_level() -> None:
    """Both fit at each of 90 levels; fitting each anew for each way to it would take for ever."""
    fields = [needed("v", "string"), {"name": "next", "type": ["null", "A", "B"], "default": None}]
    b = record("B", *fields)
    a = record("A", needed("v", "string"), {"name": "next", "type": ["null", "A", b], "default": None}, optional("n"))
    union = [a, "B"]
    value: dict[str, Any] = {"v": "last", "next": None}
    for _ in range(90):
        value = {"v": "x", "next": value}
    found, data = sent(union, value)
    assert found == value
    assert data[0] == 2


@st.composite
def choices(draw: st.DrawFn) -> tuple[list[Any], dict[str, Any]]:
    """Return a union of records with fields of a few names, and a dict of such names."""
    kinds = ("int", "string", ["null", "int"])
    defaults: dict[str, Any] = {"int": 7, "string": "seven"}
    union = []
    for name in ("A", "B", "C")[: draw(st.integers(2, 3))]:
        fields = []
        for field in draw(st.lists(st.sampled_from("xyz"), unique=True, max_size=3)):
            kind = draw(st.sampled_from(kinds))
            default = {"default": defaults.get(str(kind))} if draw(st.booleans()) else {}
            fields.append({"name": field, "type": kind, **default})
        union.append(record(name, *fields))
    values = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b"]), st.none())
    return union, draw(st.dictionaries(st.sampled_from("xyz"), values, max_size=3))


def could_be(branch: dict[str, Any], value: dict[str, Any]) -> bool:
    fields = {field["name"]: field for field in branch["fields"]}
    fits = {"int": (int,), "string": (str,), "['null', 'int']": (int, type(None))}
    return value.keys() <= fields.keys() and all(
        isinstance(value[name], fits[str(field["type"])]) if name in value else "default" in field
        for name, field in fields.items()
    )


@settings(deadline=None, max_examples=300)
@given(choice=choices())
def test_no_value_is_invented_where_a_branch_has_just_the_given_fields(
    choice: tuple[list[Any], dict[str, Any]],
) -> None:
    """A dict comes back as it was given, completed by the defaults of the only record that it can be; or is refused."""
    union, value = choice
    possible = [branch for branch in union if could_be(branch, value)]
    exact = [branch for branch in possible if len(branch["fields"]) == len(value)]
    best = exact or possible
    if len(best) != 1:
        with pytest.raises(UnencodableEventError):
            sent(union, value)
        return
    found, data = sent(union, value)
    assert data[0] == union.index(best[0]) << 1
    assert found == {field["name"]: value.get(field["name"], field.get("default")) for field in best[0]["fields"]}
