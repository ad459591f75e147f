"""Pairs of schemas, a writer's and what it became, and values that meet each part of the writer's.

Types are renamed, with aliases and without, and move to other namespaces; they become wider and narrower; fields,
symbols and branches come and go. Whether the one reads the other is for those to say that are tried.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.logical_types import logical_type
from kafka2011.events.schema_text import check_text
from kafka2011.events.schema_walk import RECORDS, named_types
from kafka2011.events.schemas import EventSchema, event_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

SCALARS = ("boolean", "int", "long", "float", "double", "string", "bytes")
WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double", "int"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
SYMBOLS = ("A", "B", "C", "D")
EXAMPLES: dict[str, tuple[Any, ...]] = {
    "null": (None,),
    "boolean": (True,),
    "int": (7,),
    "long": (2**40,),
    "float": (0.5,),
    "double": (0.25,),
    "string": ("text",),
    "bytes": (b"bytes",),
}
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 2**40,
    "float": 0.5,
    "double": 1,
    "string": "text",
    "bytes": "\u00ff",
}
_MAX_VALUES = 40
_LEVELS = 5


class SchemaPair(NamedTuple):
    """A writer's schema, a reader's, and events of the writer's."""

    writer: EventSchema
    reader: EventSchema
    events: list[dict[str, Any]]


def schema_pairs(seed: int, count: int) -> Iterator[SchemaPair]:
    """Yield pairs, the same ones for a seed."""
    chance = random.Random(seed)
    while count:
        types = _Types(chance)
        fields = [types.field() for _ in range(chance.randint(1, 3))]
        try:
            writer = event_schema("Thing", *fields)
            reader = event_schema("Thing", *types.changed_fields(fields))
            for schema in (writer, reader):
                check_text(schema)
        except InvalidSchemaError:  # a union of two ints, a record that takes no bytes
            continue
        count -= 1
        yield SchemaPair(writer, reader, covering(writer))


def covering(schema: EventSchema) -> list[dict[str, Any]]:
    """Return events in which each branch, each symbol and each field of a schema occurs."""
    own = {"time": 1, "published_at": 2, "server": "web-1", "id": "00000000-0000-8000-8000-000000000000"}
    named = named_types(schema.writer)
    fields = [field for field in schema.writer["fields"] if field["name"] not in own]
    return [own | event for event in _of_fields(fields, named, _LEVELS)]


def _values(part: Any, named: dict[str, Any], levels: int) -> list[Any]:  # noqa: PLR0911 (one for each kind of type)
    """Return values of a type; none of a type within itself that is nested too deep."""
    part = named.get(part, part) if isinstance(part, str) else part
    if isinstance(part, list):
        found = [value for branch in part for value in _named_values(branch, named, levels)]
        return found[:_MAX_VALUES]
    kind = part if isinstance(part, str) else part["type"]
    if logical_type(part) == "decimal":
        return [Decimal(1).scaleb(-part.get("scale", 0))]
    if kind in EXAMPLES:
        return list(EXAMPLES[kind])
    if kind == "enum":
        return list(part["symbols"])
    if kind == "fixed":
        return [b"x" * part["size"]]
    if levels == 0:
        return [] if kind in RECORDS else [[]] if kind == "array" else [{}]
    if kind == "array":
        return [[], *([value] for value in _values(part["items"], named, levels - 1))]
    if kind == "map":
        return [{}, *({"key": value} for value in _values(part["values"], named, levels - 1))]
    return _of_fields(part["fields"], named, levels - 1)


def _named_values(branch: Any, named: dict[str, Any], levels: int) -> list[Any]:
    """Return values of a branch of a union; those of named types with their names."""
    whole = named.get(branch, branch) if isinstance(branch, str) else branch
    values = _values(whole, named, levels)
    if isinstance(whole, dict) and (whole["type"] in RECORDS or whole["type"] in {"enum", "fixed"}):
        return [(whole["name"], value) for value in values]
    return values


def _of_fields(fields: list[dict[str, Any]], named: dict[str, Any], levels: int) -> list[dict[str, Any]]:
    columns = [_values(field["type"], named, levels) for field in fields]
    if not all(columns):
        return []
    count = max(map(len, columns), default=1)
    names = [field["name"] for field in fields]
    return [
        {name: column[row % len(column)] for name, column in zip(names, columns, strict=True)} for row in range(count)
    ]


class _Types:
    """Makes the types of one pair."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._count = 0
        self._defined: list[str] = []

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def field(self, depth: int = 2) -> dict[str, Any]:
        kind = self.type(depth)
        return {"name": self._name("f"), "type": kind, **self._default(kind)}

    def _default(self, kind: Any) -> dict[str, Any]:
        first = kind[0] if isinstance(kind, list) else kind
        if self._chance.random() < 0.4:
            return {}
        if isinstance(first, str):
            return {"default": DEFAULTS[first]} if first in DEFAULTS else {}
        empty: dict[str, Any] = {"array": [], "map": {}}
        if first["type"] in empty:
            return {"default": empty[first["type"]]}
        if first["type"] == "enum":
            return {"default": first["symbols"][0]}
        return {"default": "x" * first["size"]} if first["type"] == "fixed" else {}

    def type(self, depth: int) -> Any:  # noqa: PLR0911 (one for each kind of type)
        chance = self._chance
        kinds = (
            ["scalar"] * 3
            + ["enum", "fixed", "again"]
            + ["array", "map", "record", "record", "union", "union"] * (depth > 0)
        )
        kind = chance.choice(kinds)
        if kind == "again" and self._defined:
            return chance.choice(self._defined)
        if kind == "enum":
            return self._named("enum", symbols=list(SYMBOLS[: chance.randint(1, 4)]))
        if kind == "fixed":
            return self._named("fixed", size=chance.randint(1, 2))
        if kind == "array":
            return {"type": "array", "items": self.type(depth - 1)}
        if kind == "map":
            return {"type": "map", "values": self.type(depth - 1)}
        if kind == "record":
            fields = [self.field(depth - 1) for _ in range(chance.randint(1, 2))]
            made = self._named("record", fields=fields)
            if chance.random() < 0.2:
                made["fields"].append({"name": "again", "type": ["null", self._defined[-1]], "default": None})
            return made
        if kind == "union":
            branches = ["null", *self._members(depth)]
            chance.shuffle(branches)
            return branches
        return chance.choice(SCALARS)

    def _members(self, depth: int) -> list[Any]:
        members = [self.type(0) for _ in range(self._chance.randint(0, 1))]
        members += [self.type(depth - 1) for _ in range(self._chance.randint(1, 2))]
        return [member for member in members if not isinstance(member, list)]

    def _named(self, kind: str, **more: Any) -> dict[str, Any]:
        space = self._chance.choice((None, None, "other.space"))
        name = self._name("N")
        self._defined.append(f"{space or 'kafka2011'}.{name}")
        return {"type": kind, "name": name, "namespace": space or "kafka2011", **more}

    # What a type became

    def changed_fields(self, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        chance, found = self._chance, []
        for field in fields:
            match chance.choice(["same", "type", "type", "type", "gone", "alias", "renamed", "default"]):
                case "gone":
                    continue
                case "type":
                    new = {"name": field["name"], "type": self.changed(field["type"])}
                case "alias":
                    new = {**field, "name": self._name("f"), "aliases": [field["name"]]}
                case "renamed":
                    new = {**field, "name": self._name("f")}
                case "default":
                    new = {"name": field["name"], "type": field["type"], **self._default(field["type"])}
                case _:
                    new = dict(field)
            found.append(new)
        if chance.random() < 0.3:
            found.append(self.field(0))
        return found

    def changed(self, kind: Any) -> Any:
        chance = self._chance
        if isinstance(kind, list):
            return self._changed_union(kind)
        if isinstance(kind, str):
            if kind not in WIDER or chance.random() < 0.3:
                return kind if chance.random() < 0.7 else ["null", kind] if kind != "null" else "int"
            return chance.choice(WIDER[kind])
        match kind["type"]:
            case "array":
                return {**kind, "items": self.changed(kind["items"])}
            case "map":
                return {**kind, "values": self.changed(kind["values"])}
        return self._changed_named(kind)

    def _changed_union(self, union: list[Any]) -> Any:
        chance = self._chance
        branches = [self.changed(branch) if chance.random() < 0.4 else branch for branch in union]
        branches = [branch for branch in branches if not isinstance(branch, list)]
        match chance.choice(["same", "less", "more", "order"]):
            case "less" if len(branches) > 1:
                del branches[chance.randrange(len(branches))]
            case "more":
                branches.insert(chance.randint(0, len(branches)), self.type(0))
            case "order":
                chance.shuffle(branches)
        return branches if len(branches) > 1 or chance.random() < 0.5 else (branches or ["null"])[0]

    def _changed_named(self, kind: dict[str, Any]) -> dict[str, Any]:
        chance, new = self._chance, dict(kind)
        old_name, space = kind["name"], kind["namespace"]
        match chance.choice(["same", "same", "short alias", "full alias", "no alias", "moved", "moved with alias"]):
            case "short alias":
                new |= {"name": self._name("N"), "aliases": [old_name]}
            case "full alias":
                new |= {"name": self._name("N"), "aliases": [f"{space}.{old_name}"]}
            case "no alias":
                new |= {"name": self._name("N")}
            case "moved":
                new |= {"namespace": "moved"}
            case "moved with alias":
                new |= {"namespace": "moved", "name": self._name("N"), "aliases": [f"{space}.{old_name}", "Never"]}
        match kind["type"]:
            case "enum" if chance.random() < 0.5:
                symbols = list(SYMBOLS[: chance.randint(1, 4)])
                new |= {"symbols": symbols, **chance.choice(({}, {"default": symbols[0]}))}
            case "fixed" if chance.random() < 0.2:
                new |= {"size": kind["size"] + 1}
            case "record" if chance.random() < 0.6:
                new |= {"fields": self.changed_fields(kind["fields"])}
        return new
