"""All targets, by name: each is given hostile bytes in a way of its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.driver import Target

MODULES = ("requests", "responses", "sets", "events", "texts", "connections", "records", "gateway")
IN_C = ("runs", "received", "peers", "sending", "columns", "checks", "batches", "pieces")
"""Those whose cases C sees too: they are run under the compiler's sanitizers as well."""


def targets_in(module: str) -> tuple[Target, ...]:
    """Return the targets of a module, which is imported only then."""
    found: tuple[Target, ...] = import_module(f"tests.fuzz.targets.{module}").TARGETS
    return found


def chosen(names: Sequence[str]) -> list[Target]:
    """Return targets by their names, or all of modules by theirs; all there are without any. Raises KeyError."""
    if all(name in MODULES for name in names):
        return [target for module in names or MODULES for target in targets_in(module)]
    by_name = {target.name: target for module in MODULES for target in targets_in(module)}
    return [by_name[name] for name in names]
