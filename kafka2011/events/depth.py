"""How deep events and schemas may nest, checked by loops before anything that recurses meets them.

fastavro recurses on C's stack: without a limit, a few thousand bytes of a schema that contains itself kill the process.
Code that recurses on Python's stack then walks what was decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.schema_walk import RECORDS, extent, holds_values, named_types, records
from kafka2011.events.varint import read_varint

MAX_DEPTH = 100
"""How many records, arrays and maps may be nested, counting the event itself."""
MAX_TYPES = 100_000
"""How many types a schema may have once each name is written out; without it, records of records fill the memory."""

_MAX_JSON_DEPTH = 4 * MAX_DEPTH  # of a schema: a record in a union takes four
_TOO_DEEP = f"it nests more than {MAX_DEPTH} levels deep"

_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_TEXTS = frozenset({"string", "bytes"})


def is_deeper(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Say whether lists and dicts in a Python value nest more than `levels` deep."""
    level = [value]
    for _ in range(levels + 1):
        level = [part for part in level if isinstance(part, Mapping | list | tuple)]
        if not level:
            return False
        level = [inner for part in level for inner in (part.values() if isinstance(part, Mapping) else part)]
    return True


def check_document(document: Any) -> None:
    """Raise InvalidSchemaError if a schema's JSON nests too deep; call it before parsing."""
    if is_deeper(document, _MAX_JSON_DEPTH):
        raise InvalidSchemaError(f"the schema's JSON nests more than {_MAX_JSON_DEPTH} levels deep")


def check_schema(parsed: Any) -> None:
    """Raise InvalidSchemaError if a parsed schema nests too deep or holds too many types."""
    depth, types, _ = extent(parsed)
    if depth > MAX_DEPTH:
        raise InvalidSchemaError(f"the schema's types nest {depth} levels deep: at most {MAX_DEPTH} are taken")
    if types > MAX_TYPES:
        raise InvalidSchemaError(
            f"the schema has {types} types when each name is written out: at most {MAX_TYPES} are taken"
        )
    for record in records(parsed):
        for field in record["fields"]:
            if is_deeper(field.get("default")):
                raise InvalidSchemaError(
                    f"the default of field {field['name']} nests more than {MAX_DEPTH} levels deep"
                )


class DepthCheck:
    """Checks how deep events of one schema nest. Make one with `depth_check`."""

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed
        self._named = named_types(parsed)

    def check_event(self, event: Any) -> None:
        """Raise ValueError if an event nests too deep; call it before encoding."""
        if is_deeper(event):
            raise ValueError(_TOO_DEEP)

    def check_bytes(self, data: bytes, at: int) -> None:
        """Walk through the body of an event.

        Raises ValueError if it nests too deep or does not fit the schema, IndexError if it is cut short.
        """
        waiting: list[tuple[Any, int, int]] = [(self._parsed, 1, 0)]  # types, their levels, items left in the block
        while waiting:
            part, level, left = waiting.pop()
            if isinstance(part, str):
                part = self._named.get(part, part)
            if level > MAX_DEPTH and holds_values(part):
                raise ValueError(_TOO_DEEP)
            kind = part["type"] if isinstance(part, dict) else part
            if isinstance(part, list):
                branch, at = read_varint(data, at)
                if not 0 <= branch < len(part):
                    raise ValueError(f"a union has no branch {branch}")
                waiting.append((part[branch], level, 0))
            elif kind in RECORDS:
                waiting += ((field["type"], level + 1, 0) for field in reversed(part["fields"]))
            elif kind in {"array", "map"}:
                if not left:
                    left, at = _block(data, at)
                if left:
                    at = _after_text(data, at) if kind == "map" else at
                    waiting += (part, level, left - 1), (part["items" if kind == "array" else "values"], level + 1, 0)
            else:
                at = _after_leaf(part, kind, data, at)


def depth_check(parsed: Any) -> DepthCheck | None:
    """Return a check for events of a parsed schema; None if its events cannot nest deeper than the schema."""
    return DepthCheck(parsed) if extent(parsed).is_recursive else None


def _block(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of items in a block of an array or a map, and the position after it."""
    count, at = read_varint(data, at)
    if count < 0:  # then the size in bytes follows
        _, at = read_varint(data, at)
    return abs(count), at


def _after_leaf(part: Any, kind: str, data: bytes, at: int) -> int:
    """Return the position after a value that holds no others."""
    if kind in _TEXTS:
        return _after_text(data, at)
    if kind in _BYTES:
        return at + _BYTES[kind]
    if kind == "fixed":
        size: int = part["size"]
        return at + size
    return read_varint(data, at)[1]


def _after_text(data: bytes, at: int) -> int:
    size, at = read_varint(data, at)
    if size < 0:
        raise ValueError(f"a text of {size} bytes")
    return at + size
