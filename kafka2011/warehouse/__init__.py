"""From the brokers into tables: loads that never duplicate, and reports on them (paper, section 4).

`load` and `open_table` are imported when they are first used: they need PyArrow, and commands should not wait for that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.warehouse.loading.loader import load
    from kafka2011.warehouse.table.reading import open_table

__all__ = ["load", "open_table"]

_HOMES = {"load": "kafka2011.warehouse.loading.loader", "open_table": "kafka2011.warehouse.table.reading"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
