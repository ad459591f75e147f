"""Schemas at random, what they may become, events of them, and bytes that nearly are such."""

from __future__ import annotations

import random
import struct
import uuid
from typing import Any

from kafka2011.events.codec import EventEncoder
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema

TOPIC = "things"
HEADER = {"time": 1, "published_at": 2, "server": "s", "id": str(uuid.UUID(int=7))}
RECORD = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
}
"""A record that other types of one schema may name again."""

SCALARS = ("boolean", "int", "long", "float", "double", "string", "bytes")
LOGICAL = {
    "timestamp-micros": ("long", (-(10**16), 10**17)),
    "timestamp-millis": ("long", (-(10**13), 10**14)),
    "local-timestamp-micros": ("long", (-(10**16), 10**17)),
    "time-micros": ("long", (0, 10**10)),
    "date": ("int", (-(10**5), 10**5)),
}
EDGES = (0, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31))
LONG_EDGES = (*EDGES, 2**62, 2**63 - 1, -(2**63))


def value_of(chance: random.Random, part: Any, named: dict[str, Any]) -> Any:  # noqa: C901, PLR0911, PLR0912 (one for each kind of type)
    """Return a value of a type."""
    if isinstance(part, list):
        return value_of(chance, chance.choice(part), named)
    if isinstance(part, str) and part in named:
        part = named[part]
    if isinstance(part, dict) and part.get("logicalType") in LOGICAL:
        return chance.randint(*LOGICAL[part["logicalType"]][1])
    match part["type"] if isinstance(part, dict) else part:
        case "null":
            return None
        case "boolean":
            return chance.random() < 0.5
        case "int":
            return chance.choice(EDGES)
        case "long":
            return chance.choice((*LONG_EDGES, chance.randint(-(2**63), 2**63 - 1)))
        case "float":
            return struct.unpack("<f", struct.pack("<f", chance.uniform(-1e9, 1e9)))[0]
        case "double":
            return chance.choice((chance.random(), float("nan"), -0.0, float("inf")))
        case "string":
            return "".join(chance.choice("aü€😀\0") for _ in range(chance.choice((0, 1, 3, 70))))
        case "bytes":
            return chance.randbytes(chance.choice((0, 1, 3, 70)))
        case "fixed":
            return chance.randbytes(part["size"])
        case "enum":
            return chance.choice(part["symbols"])
        case "array":
            return [value_of(chance, part["items"], named) for _ in range(chance.randrange(4))]
        case "map":
            return {key: value_of(chance, part["values"], named) for key in "aü€"[: chance.randrange(4)]}
    return {each["name"]: value_of(chance, each["type"], named) for each in part["fields"]}


class RandomTypes:
    """Makes types of one schema, which may name others of it again."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.named: dict[str, Any] = {}

    def any(self, depth: int = 3) -> Any:  # noqa: PLR0911
        chance = self._chance
        kinds = ["scalar"] * 4 + ["logical", "enum", "fixed", "nullable", "nullable", "numbers", "again"]
        kinds += ["array", "map", "record"] * bool(depth)
        match chance.choice(kinds):
            case "logical":
                name = chance.choice(sorted(LOGICAL))
                return {"type": LOGICAL[name][0], "logicalType": name}
            case "enum":
                return self._named("enum", symbols=["A", "B", "LONGER"][: chance.randint(1, 3)])
            case "fixed":
                return self._named("fixed", size=chance.randint(1, 9))
            case "nullable":
                kind = self.any(max(depth - 1, 0))
                return chance.choice((["null", kind], [kind, "null"])) if not isinstance(kind, list) else kind
            case "numbers":
                return ["int", "long", "null"][chance.randrange(3) :] if chance.random() < 0.9 else ["long", "string"]
            case "again" if self.named:
                return chance.choice(sorted(self.named))
            case "array":
                return {"type": "array", "items": self._weighty(depth)}
            case "map":
                return {"type": "map", "values": self.any(depth - 1)}
            case "record":
                fields = [{"name": f"f{n}", "type": self._weighty(depth)} for n in range(chance.randint(1, 3))]
                return self._named("record", fields=fields)
        return chance.choice(SCALARS)

    def _weighty(self, depth: int) -> Any:
        found = self.any(depth - 1)
        return "long" if found in ("null", ["null"]) else found

    def _named(self, kind: str, **more: Any) -> dict[str, Any]:
        name = f"N{len(self.named)}"
        self.named[name] = {"type": kind, "name": name, **more}
        return {"type": kind, "name": name, **more}


class RandomSchema:
    """A schema at random, what it became later, and its events."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._types = RandomTypes(self.chance)
        fields = [{"name": f"field{n}", "type": self._types.any()} for n in range(self.chance.randint(1, 5))]
        self.schema = event_schema("Thing", *fields)

    def payloads(self) -> list[bytes]:
        """Return some events."""
        chance, fields = self.chance, self.schema.document["fields"][4:]
        events = []
        for _ in range(chance.randint(1, 5)):
            event = {each["name"]: value_of(chance, each["type"], self._types.named) for each in fields}
            times = {"time": chance.randrange(10**15), "published_at": chance.randrange(-(10**12), 10**15)}
            events.append({**HEADER, **times, **event})
        return EventEncoder(KnownSchemas({TOPIC: self.schema})).encode_all(TOPIC, events)

    def broken(self, payload: bytes) -> bytes:  # noqa: PLR0911
        """Return a payload that is not what was encoded, more or less."""
        chance = self.chance
        at = chance.randrange(len(payload)) if chance.random() < 0.2 else chance.randrange(10, len(payload))
        match chance.randrange(7):
            case 0:
                return payload[:at] + chance.randbytes(1) + payload[at + 1 :]
            case 1:
                return payload[:at]
            case 2:
                return payload[:at] + payload[at + chance.randint(1, 3) :]
            case 3:
                return payload[:at] + chance.randbytes(chance.randint(1, 3)) + payload[at:]
            case 4:
                return payload + chance.randbytes(chance.randint(1, 3))
            case 5:
                return payload[:at] + chance.choice((b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f")) + payload[at:]
        return payload[:at] + bytes([payload[at] ^ 1 << chance.randrange(8)]) + payload[at + 1 :]

    def evolved(self) -> EventSchema:
        """Return what the schema may have become: fields are gone, new, renamed, wider, nullable."""
        return event_schema("Thing", *self._fields(self.schema.document["fields"][4:], "more"))

    def _fields(self, fields: list[dict[str, Any]], new: str) -> list[dict[str, Any]]:
        found = [each | {"type": self._changed(each["type"])} for each in fields if self.chance.random() < 0.8]
        if found and self.chance.random() < 0.2:
            found[0] |= {"name": "renamed", "aliases": [found[0]["name"]]}
        kind, default = self.chance.choice(ADDED[: 14 if new == "more" else 7])
        found.insert(self.chance.randint(0, len(found)), {"name": new, "type": kind, "default": default})
        return found

    def _changed(self, part: Any) -> Any:  # noqa: PLR0911
        chance = self.chance
        if isinstance(part, list):
            return [each if each == "null" else self._changed(each) for each in part]
        if isinstance(part, str):
            return chance.choice(WIDER[part]) if part in WIDER and chance.random() < 0.2 else part
        match part["type"]:
            case "array":
                return part | {"items": self._changed(part["items"])}
            case "map":
                return part | {"values": self._changed(part["values"])}
            case "enum" if chance.random() < 0.3:
                return part | {"symbols": ["NEW", part["symbols"][0]], "default": "NEW"}
            case "record" if chance.random() < 0.5:
                return part | {"fields": self._fields(part["fields"], "inner")}
        return part


WIDER = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}
WIDER |= {"string": ("bytes",), "bytes": ("string",)}
ADDED: list[tuple[Any, Any]] = [
    ("string", "x"),
    ("long", -5),
    ("float", 1.5),
    ("boolean", True),
    ("bytes", "\xff"),
    (["null", "long"], None),
    (["long", "null"], 7),
    ({"type": "array", "items": "long"}, [1, 2]),
    ({"type": "map", "values": "string"}, {"k": "v"}),
    ({"type": "enum", "name": "Added", "symbols": ["P", "Q"]}, "Q"),
    ({"type": "fixed", "name": "AddedFixed", "size": 2}, "ab"),
    ({"type": "long", "logicalType": "timestamp-millis"}, 1000),
    (RECORD, {"a": 1, "b": None}),
    ({"type": "array", "items": "string"}, []),
]
