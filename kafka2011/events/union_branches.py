"""Chooses the branch of a union that a dict is written as.

A union may have several records, and a map. Left alone, fastavro takes the first record that has most of the dict's
names, and fills in the defaults of others; so an event could get values that nobody gave. Here a dict fits a branch in
one of three ways, the best one first:

    exactly          each field of the record is in the dict, and nothing else is
    as a map         which takes any names
    with defaults    fields that the dict lacks have defaults, and nothing else is in the dict

The branch that fits best is chosen. If several fit alike, the dict is refused: the publisher then names the branch, as
in ("kafka2011.Card", {"number": 1}).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from kafka2011.errors import missing_extra
from kafka2011.events.schema_walk import RECORDS, field_place, named_types, walk

try:
    from fastavro.validation import validate
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class _Fit(IntEnum):
    """How a value fits a type."""

    NOT = 0
    WITH_DEFAULTS = 1
    AS_MAP = 2
    EXACTLY = 3


def branch_chooser(parsed: Any) -> Callable[[Mapping[str, Any]], Any] | None:
    """Return what names the branch of each dict in an event whose union leaves a choice; None if no union does.

    It returns the event with such dicts as pairs of name and dict, as fastavro takes them, and does not change the
    event. It raises ValueError for a dict that fits several branches.
    """
    types = _Types(parsed)
    if not types.with_choices:
        return None
    return lambda event: _Choice(types).named(parsed, event, "")


class _Types:
    """The types of one parsed schema: `with_choices` has the ids of those in which a dict may be several things."""

    def __init__(self, parsed: Any) -> None:
        self.named = named_types(parsed)
        parts = [part for part in walk(parsed) if isinstance(part, dict | list)]
        self.with_choices = {id(part) for part in parts if isinstance(part, list) and self._leaves_choice(part)}
        is_complete = not self.with_choices
        while not is_complete:
            around = {id(part) for part in parts if any(self.has_choices(inner) for inner in self._within(part))}
            is_complete = around <= self.with_choices
            self.with_choices |= around

    def at(self, part: Any) -> Any:
        """Return a type, or what a name stands for."""
        return self.named.get(part, part) if isinstance(part, str) else part

    def has_choices(self, part: Any) -> bool:
        """Say whether a dict within a value of a type may be several things."""
        return id(self.at(part)) in self.with_choices

    def _leaves_choice(self, union: Sequence[Any]) -> bool:
        return sum(kind_of(self.at(branch)) in {*RECORDS, "map"} for branch in union) > 1

    def _within(self, part: Any) -> list[Any]:
        if isinstance(part, list):
            return part
        kind = part["type"]
        if kind in RECORDS:
            return [field["type"] for field in part["fields"]]
        return [part["items"]] if kind == "array" else [part["values"]] if kind == "map" else []


class _Choice:
    """Chooses the branches for one event."""

    def __init__(self, types: _Types) -> None:
        self._types = types
        self._fits: dict[tuple[int, int], tuple[_Fit, Any]] = {}
        """The fits by the ids of type and value, which is kept: a record within itself is fitted at each level."""

    def named(self, part: Any, value: Any, place: str) -> Any:
        """Return a value of a type with its branches named. Raises ValueError for one that fits several."""
        part = self._types.at(part)
        if not self._types.has_choices(part):
            return value
        if isinstance(part, list):
            return self._of_union(part, value, place)
        kind = part["type"]
        if kind in RECORDS and isinstance(value, Mapping):
            types = {field["name"]: field["type"] for field in part["fields"]}
            return {
                name: self.named(types[name], inner, field_place(place, name)) if name in types else inner
                for name, inner in value.items()
            }
        if kind == "array" and isinstance(value, list | tuple):
            return [self.named(part["items"], item, f"{place}[]") for item in value]
        if kind == "map" and isinstance(value, Mapping):
            return {key: self.named(part["values"], item, f"{place}{{}}") for key, item in value.items()}
        return value

    def _of_union(self, union: list[Any], value: Any, place: str) -> Any:
        if _is_pair(value):
            name, value = value
            found = [branch for branch in union if self._name_of(branch) == name]
            if not found:
                names = ", ".join(map(self._name_of, union))
                raise ValueError(f"field {place}: {name} is no type of the union, which has {names}")
        elif isinstance(value, Mapping | list | tuple):
            found = self._best(union, value)
        else:
            return value
        if not found:
            return value  # which fastavro refuses, with its own reason
        names_found = [self._name_of(branch) for branch in found]
        if len(found) > 1:
            raise ValueError(
                f"field {place}: the dict fits several types of the union, {' and '.join(names_found)}: give a pair of"
                f' the name and the dict, such as ("{names_found[0]}", {{...}})'
            )
        return names_found[0], self.named(found[0], value, place)

    def _best(self, union: list[Any], value: Any) -> list[Any]:
        """Return the branches that a value fits best."""
        fits = [self._fit(branch, value) for branch in union]
        best = max(fits)
        return [branch for branch, fit in zip(union, fits, strict=True) if fit is best and best]

    def _name_of(self, branch: Any) -> str:
        """Return the name by which fastavro takes a branch of a union."""
        part = self._types.at(branch)
        return str(part["name"]) if isinstance(part, dict) and "name" in part else kind_of(part)

    def _fit(self, part: Any, value: Any) -> _Fit:
        part = self._types.at(part)
        key = (id(part), id(value))
        if key not in self._fits:
            self._fits[key] = self._new_fit(part, value), value
        return self._fits[key][0]

    def _new_fit(self, part: Any, value: Any) -> _Fit:
        if isinstance(part, list):
            return self._fit_of_union(part, value)
        kind = kind_of(part)
        if kind in RECORDS:
            return self._fit_of_record(part, value) if isinstance(value, Mapping) else _Fit.NOT
        if kind == "array" and isinstance(value, list | tuple):
            return min((self._fit(part["items"], item) for item in value), default=_Fit.EXACTLY)
        if kind == "map" and isinstance(value, Mapping):
            fits = (
                self._fit(part["values"], item) if isinstance(key, str) else _Fit.NOT for key, item in value.items()
            )
            return min([_Fit.AS_MAP, *fits])
        try:
            return _Fit.EXACTLY if validate(value, part, raise_errors=False) else _Fit.NOT
        except (ArithmeticError, AttributeError, TypeError, ValueError):  # of what prepares logical types
            return _Fit.NOT

    def _fit_of_union(self, union: list[Any], value: Any) -> _Fit:
        if _is_pair(value):
            branches = [branch for branch in union if self._name_of(branch) == value[0]]
            return max((self._fit(branch, value[1]) for branch in branches), default=_Fit.NOT)
        return max((self._fit(branch, value) for branch in union), default=_Fit.NOT)

    def _fit_of_record(self, record: Any, value: Mapping[str, Any]) -> _Fit:
        fields = {field["name"]: field for field in record["fields"]}
        if not value.keys() <= fields.keys():
            return _Fit.NOT
        worst = _Fit.EXACTLY
        for name, field in fields.items():
            if name in value:
                worst = min(worst, self._fit(field["type"], value[name]))
            else:
                worst = min(worst, _Fit.WITH_DEFAULTS if "default" in field else _Fit.NOT)
            if worst is _Fit.NOT:
                break
        return worst


def kind_of(part: Any) -> str:
    """Return the kind of a type that is not a name; of a union, "union"."""
    return "union" if isinstance(part, list) else part if isinstance(part, str) else str(part["type"])


def _is_pair(value: Any) -> bool:
    """Say whether a value is a pair that names its branch."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
