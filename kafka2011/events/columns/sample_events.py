"""Sample events of a schema: each leaves out whatever has a default, and together they take every branch of a union."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafka2011.events.logical_types import logical_type
from kafka2011.events.schema_walk import RECORDS, extent, field_place, named_types, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_VALUES = 200_000
"""The limit for the values in all samples of one schema."""
_ID = str(UUID(int=0))
_PLAIN: dict[str, Any] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "bytes": b"",
    "string": "",
}


class NoValueError(Exception):
    """Means that a type has no value; the text says which field has it."""


def sample_events(parsed: Any) -> Iterator[dict[str, Any]]:
    """Yield events of a parsed schema. Raises NoValueError if it can have none."""
    most = max((len(part) for part in walk(parsed) if isinstance(part, list)), default=1)
    count = max(1, min(most, _MAX_VALUES // extent(parsed).types))
    for choice in range(count):
        event = _Sample(named_types(parsed), choice).of(parsed, "")
        yield {**event, "id": _ID}


class _Sample:
    """Makes values; of each union it takes the branch number `choice`, or the last one."""

    def __init__(self, named: Mapping[str, Any], choice: int) -> None:
        self._named = named
        self._choice = choice
        self._open: list[str] = []
        """The records around the current type."""

    def of(self, part: Any, place: str) -> Any:  # noqa: PLR0911  (one for each kind of type)
        """Return a value of the type at a place. Raises NoValueError."""
        part = self._named.get(part, part) if isinstance(part, str) else part
        if isinstance(part, list):
            return self._of_union(part, place)
        if isinstance(part, str):
            return _PLAIN[part]
        if logical_type(part) == "decimal":
            return Decimal(0)
        kind = part["type"]
        if kind in RECORDS:
            return self._of_record(part, place)
        if kind == "array":
            return self._items(part["items"], f"{place}[]")
        if kind == "map":
            return dict.fromkeys(["key"], *items) if (items := self._items(part["values"], f"{place}{{}}")) else {}
        if kind == "enum":
            if not part["symbols"]:
                raise NoValueError(f"field {place}: enum {part['name']} has no symbols")
            return part["symbols"][0]
        return bytes(part["size"]) if kind == "fixed" else _PLAIN[kind]

    def _items(self, part: Any, place: str) -> list[Any]:
        try:
            return [self.of(part, place)]
        except NoValueError:
            return []

    def _of_record(self, part: Mapping[str, Any], place: str) -> dict[str, Any]:
        name = part["name"]
        if name in self._open:
            raise NoValueError(f"field {place}: record {name} is within itself without an end")
        self._open.append(name)
        try:
            needed = [field for field in part["fields"] if "default" not in field]
            return {field["name"]: self.of(field["type"], field_place(place, field["name"])) for field in needed}
        finally:
            self._open.pop()

    def _of_union(self, union: list[Any], place: str) -> Any:
        why = NoValueError(f"field {place}: its union has no types")
        chosen = min(self._choice, len(union) - 1)
        for branch in union[chosen:] + union[:chosen]:
            try:
                value = self.of(branch, place)
            except NoValueError as error:
                why = error
                continue
            return None if value is None else (self._name(branch), value)
        raise why

    def _name(self, branch: Any) -> str:
        """Return the name of a branch, as the encoder knows it."""
        whole = self._named.get(branch, branch) if isinstance(branch, str) else branch
        return str(whole if isinstance(whole, str) else whole.get("name", whole["type"]))
