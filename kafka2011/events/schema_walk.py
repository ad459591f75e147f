"""Walks through an Avro schema, as JSON or parsed: the one place that knows where a type holds other types.

Everything here is a loop, so no schema nests too deep for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
RECORDS = frozenset({"record", "error"})
NAMED = RECORDS | {"enum", "fixed"}
_HOLDS = RECORDS | {"array", "map"}


def walk(schema: Any, named: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """Yield a schema and all types within it, outer ones first; only types, since a default may look like one.

    A type given by name is yielded as that name, and if `named` has it, walked through the first time.
    """
    waiting, followed = [schema], set()
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict | list):
            waiting += reversed(_within(part))
        elif named is not None and part in named and part not in followed:
            followed.add(part)
            waiting.append(named[part])


def places(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield a schema and all types that are defined within it, each after its place, outer ones first.

    A place is the path of fields to a type: `order.lines[].fee` is a field of the items of an array, and `prices{}` the
    values of a map. The place of the schema itself is empty.
    """
    waiting = [("", schema)]
    while waiting:
        place, part = waiting.pop()
        yield place, part
        if isinstance(part, dict | list):
            names = _places_within(place, part)
            waiting += reversed([*zip(names, _within(part), strict=True)])


def walk_in_namespaces(schema: Any) -> Iterator[tuple[Any, str]]:
    """Yield what `walk` yields of a schema's JSON, each type with the namespace around it, empty outside of any."""
    waiting = [(schema, "")]
    while waiting:
        part, namespace = waiting.pop()
        yield part, namespace
        if isinstance(part, dict) and part["type"] in NAMED:
            namespace = full_name(part, namespace).rpartition(".")[0]
        if isinstance(part, dict | list):
            waiting += ((inner, namespace) for inner in reversed(_within(part)))


def qualify_aliases(schema: Any) -> None:
    """Give the aliases of the types in a schema's JSON their full names: short ones are in the namespace of the type.

    Java's library compares such names, the two for Python compare aliases as they are written.
    """
    for name, (part, _) in named_in(schema).items():
        if "aliases" in part:
            space = name.rpartition(".")[0]
            part["aliases"] = [full_name({"name": alias}, space) for alias in part["aliases"]]


def named_in(schema: Any) -> dict[str, tuple[dict[str, Any], str]]:
    """Return the named types that a schema's JSON defines, by full name, each with the namespace around it."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for part, namespace in walk_in_namespaces(schema):
        if isinstance(part, dict) and part["type"] in NAMED:
            found.setdefault(full_name(part, namespace), (part, namespace))
    return found


def undefined_type(schema: Any) -> str | None:
    """Return a name that a schema's JSON uses as a type before it defines one of this name; None if there is none."""
    defined = set(PRIMITIVES)
    for part, namespace in walk_in_namespaces(schema):
        if isinstance(part, str) and part not in PRIMITIVES:
            name = full_name({"name": part}, namespace)
            if name not in defined:
                return name
        elif isinstance(part, dict) and part["type"] in NAMED:
            defined.add(full_name(part, namespace))
    return None


def full_name(part: Mapping[str, Any], namespace: str) -> str:
    """Return the full name of a named type within a namespace, which is empty outside of any."""
    name: str = part["name"]
    if "." in name:
        return name
    namespace = part.get("namespace", namespace)
    return f"{namespace}.{name}" if namespace else name


def field_place(place: str, name: str) -> str:
    """Return the place of a field of the record at a place."""
    return f"{place}.{name}" if place else name


def _places_within(place: str, part: dict[str, Any] | list[Any]) -> list[str]:
    """Return the places of the types directly within a type, in the order of `_within`."""
    if isinstance(part, list):
        return [place] * len(part)
    kind = part["type"]
    if kind in RECORDS:
        return [field_place(place, field["name"]) for field in part["fields"]]
    return [place + ("[]" if kind == "array" else "{}")] * (kind in _HOLDS)


def records(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the records that are defined in a schema, outer ones first."""
    return (part for part in walk(schema) if isinstance(part, dict) and part["type"] in RECORDS)


def named_types(schema: Any) -> dict[str, dict[str, Any]]:
    """Return the records, enums and fixed that are defined in a schema, by name; in a parsed schema, by full name."""
    return {part["name"]: part for part in walk(schema) if isinstance(part, dict) and part["type"] in NAMED}


class Extent(NamedTuple):
    """The extent of a parsed schema when every name is followed wherever it stands.

    `depth` is how deep records, arrays and maps nest, `types` how many types there are. A record within itself is
    counted once, and `is_recursive` is set.
    """

    depth: int
    types: int
    is_recursive: bool


def extent(parsed: Any) -> Extent:
    """Return the extent of a parsed schema."""
    named = named_types(parsed)
    known: dict[int, tuple[int, int]] = {}
    within: set[int] = set()  # the types around the current one
    is_recursive = False
    waiting = [(parsed, False)]
    while waiting:
        part, is_left = waiting.pop()
        part = _followed(part, named)
        if isinstance(part, str):
            continue
        inner = _within(part)
        if is_left:
            within.discard(id(part))
            extents = [known.get(id(_followed(inner_part, named)), (0, 1)) for inner_part in inner]
            depth = max((depth for depth, _ in extents), default=0) + (holds_values(part))
            known[id(part)] = depth, 1 + sum(types for _, types in extents)
        elif id(part) in within:
            is_recursive = True
        elif id(part) not in known:
            within.add(id(part))
            waiting.append((part, True))
            waiting += ((inner_part, False) for inner_part in inner)
    return Extent(*known.get(id(parsed), (0, 1)), is_recursive)


def holds_values(part: Any) -> bool:
    """Say whether a value of a type holds others: a record, an array or a map."""
    return isinstance(part, dict) and part["type"] in _HOLDS


def _followed(part: Any, named: Mapping[str, Any]) -> Any:
    return named.get(part, part) if isinstance(part, str) else part


def _within(schema: dict[str, Any] | list[Any]) -> list[Any]:
    """Return the types that stand directly within a type."""
    if isinstance(schema, list):
        return schema
    kind = schema["type"]
    if kind == "array":
        return [schema["items"]]
    if kind == "map":
        return [schema["values"]]
    return [field["type"] for field in schema["fields"]] if kind in RECORDS else []
