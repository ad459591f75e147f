"""The parts of the project that `make mutants` tries: `[tool.mutants]` in pyproject.toml lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Part(NamedTuple):
    """A module or a package without its parts: whether all of its changes are tried, and how many must be noticed."""

    name: str
    is_whole: bool
    least_share: float


def read_parts(table: Mapping[str, Any]) -> list[Part]:
    """Return the parts that `[tool.mutants]` lists."""
    whole = [Part(name, True, table["whole-share"]) for name in table["whole"]]
    return whole + [Part(name, False, share) for name, share in table["samples"].items()]


def modules_by_part(parts: Iterable[Part], modules: Iterable[str]) -> dict[Part, list[str]]:
    """Return the modules of each part: a module belongs to the smallest part around it, or to none."""
    by_name = {part.name: part for part in parts}
    members: dict[Part, list[str]] = {part: [] for part in by_name.values()}
    for module in modules:
        name = module
        while name and name not in by_name:
            name = name.rpartition(".")[0]
        if name:
            members[by_name[name]].append(module)
    return members


def problems(table: Mapping[str, Any], modules: Iterable[str]) -> Iterator[str]:
    """Say which modules belong to no part, and which parts have no module."""
    members = modules_by_part(read_parts(table), modules)
    for module in sorted(set(modules) - {module for names in members.values() for module in names}):
        yield f"{module} is in no part of [tool.mutants], so no mutation of it is tried"
    for part, names in members.items():
        if not names:
            yield f"[tool.mutants] lists {part.name}, which has no modules"
