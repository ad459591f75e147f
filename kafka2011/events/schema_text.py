"""What a new schema's text may not say, though it can be parsed: other Avro libraries would refuse it, or not read it.

Schemas that are registered already are not checked: their events stay readable.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from kafka2011.errors import missing_extra
from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.logical_types import logical_type
from kafka2011.events.resolution import without_ignored
from kafka2011.events.schema_walk import RECORDS, field_place, named_types, places

try:
    from fastavro.schema import parse_schema
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka2011.events.schemas import EventSchema

_NAME = re.compile(r"[^\W\d]\w*")
"""Names as Java's library takes them: letters of any language, digits and underscores."""
_FULL_NAME = re.compile(rf"({_NAME.pattern}\.)*{_NAME.pattern}")
_BITS = {"int": 32, "long": 64}
_MAX_FLOAT = 3.4028234663852886e38
_JSON_KINDS: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "bytes": (str,),
    "fixed": (str,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
    "error": (dict,),
}


def check_text(schema: EventSchema) -> None:
    """Check the names, defaults and numbers of a new schema. Raises InvalidSchemaError, which names the place."""
    complaint = next(_complaints(schema.document), None)
    if complaint is not None:
        raise InvalidSchemaError(f"record {schema.name}: {complaint}")


def _complaints(document: Any) -> Iterator[str]:
    """Yield what is wrong with a schema's JSON."""
    for path, number in _numbers(document):
        if not math.isfinite(number):
            yield f"{path} is {_shown(number)}, which is no number in JSON"
    parsed = parse_schema(without_ignored(document))
    named = named_types(parsed)
    for place, part in places(parsed):
        if isinstance(part, list):
            yield from _of_union(part, place)
        elif isinstance(part, dict):
            yield from _of_aliases(part, place)
            if part["type"] in RECORDS:
                yield from _of_fields(part, place, named)


def _of_union(union: list[Any], place: str) -> Iterator[str]:
    if not union:
        yield f"field {place} is a union without types"
    names = [part.get("name", "") if isinstance(part, dict) else part for part in union]
    for name in names:
        if name and names.count(name) > 1:
            yield f"field {place}: its union has {name} twice"


def _of_aliases(part: Mapping[str, Any], place: str) -> Iterator[str]:
    aliases = part.get("aliases", [])
    if not isinstance(aliases, list):
        yield f"the aliases of the type at {place or 'the top'} are {_shown(aliases)}, and no list"
        return
    for alias in aliases:
        if not isinstance(alias, str) or not _FULL_NAME.fullmatch(alias):
            yield f"the alias {_shown(alias)} of the type at {place or 'the top'} is no name: {_NAMES_SAY}"


_NAMES_SAY = "names have letters, digits and underscores, and begin with no digit"


def _of_fields(record: Mapping[str, Any], place: str, named: Mapping[str, Any]) -> Iterator[str]:
    for field in record["fields"]:
        path = field_place(place, field["name"])
        if not _NAME.fullmatch(field["name"]):
            yield f"field {path}: {_shown(field['name'])} is no name: {_NAMES_SAY}"
        why = _why_no_value(field["type"], field["default"], named) if "default" in field else None
        if why is not None:
            yield f"field {path}: the default {_shown(field['default'])} does not fit: {why}"


def _why_no_value(part: Any, value: Any, named: Mapping[str, Any]) -> str | None:
    """Return why a default is no value of a type; None if it is one. A default may be of any type of a union."""
    if isinstance(part, list):
        reasons = [_why_no_value(branch, value, named) for branch in part]
        if None in reasons or not reasons:
            return None
        return reasons[0] if len(reasons) == 1 else "; ".join(reason for reason in reasons if reason)
    part = named.get(part, part) if isinstance(part, str) else part
    kind = part["type"] if isinstance(part, dict) else part
    is_json_of_kind = isinstance(value, _JSON_KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not is_json_of_kind:
        return f"{_shown(value)} is no {kind}"
    if kind in {"array", "map"}:
        items = value if kind == "array" else value.values()
        inner = part["items" if kind == "array" else "values"]
        return next((why for item in items if (why := _why_no_value(inner, item, named))), None)
    if kind in RECORDS:
        return _why_no_record(part, value, named)
    return _why_no_leaf(part, kind, value)


def _why_no_record(record: Mapping[str, Any], value: Mapping[str, Any], named: Mapping[str, Any]) -> str | None:
    for field in record["fields"]:
        name = field["name"]
        if name not in value and "default" not in field:
            return f"field {name} of {record['name']} has no default"
        if name in value and (why := _why_no_value(field["type"], value[name], named)):
            return f"{name}: {why}"
    return None


def _why_no_leaf(part: Any, kind: str, value: Any) -> str | None:  # noqa: PLR0911  # one for each kind of type
    """Return why JSON of the right kind is no value of a type that holds no others."""
    if kind in _BITS and not -(2 ** (_BITS[kind] - 1)) <= value < 2 ** (_BITS[kind] - 1):
        return f"{value} does not fit into the {_BITS[kind]} bits of {kind}"
    if kind in {"float", "double"}:
        try:
            is_too_large = abs(float(value)) > _MAX_FLOAT if kind == "float" else math.isinf(float(value))
        except OverflowError:
            is_too_large = True
        return f"it is too large for {kind}" if is_too_large else None
    if kind == "enum" and value not in part["symbols"]:
        return f"{_shown(value)} is none of the symbols of {part['name']}"
    if kind in {"bytes", "fixed"} and any(ord(character) > 0xFF for character in value):
        return "each character of a default of bytes stands for one byte, U+0000 to U+00FF"
    if kind == "fixed" and len(value) != part["size"]:
        return f"{part['name']} has {part['size']} bytes, and the default has {len(value)}"
    if logical_type(part) == "decimal":
        digits = len(str(abs(int.from_bytes(value.encode("latin-1"), "big", signed=True))))
        if digits > part["precision"]:
            return f"the decimal has {digits} digits, and its precision is {part['precision']}"
    return None


def _numbers(document: Any) -> Iterator[tuple[str, float]]:
    """Yield the floats in a schema's JSON, each with its place there: `fields[4].default`."""
    waiting = [("", document)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, float):
            yield path, part
        elif isinstance(part, dict):
            waiting += ((field_place(path, key), inner) for key, inner in reversed(part.items()))
        elif isinstance(part, list):
            waiting += ((f"{path}[{number}]", inner) for number, inner in reversed([*enumerate(part)]))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
