"""Loads topics into tables, each message once, and reads the tables (paper, section 4).

Names are imported when they are first used: they need PyArrow, which most commands do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.lazy_names import lazily

if TYPE_CHECKING:
    from kafka2011.warehouse.loading.load_settings import LoadSettings
    from kafka2011.warehouse.loading.loader import load
    from kafka2011.warehouse.loading.topic_load import Loaded
    from kafka2011.warehouse.table.reading import open_table

__all__ = [
    "LoadSettings",
    "Loaded",
    "load",
    "open_table",
]

__getattr__ = lazily(
    __name__,
    {
        "kafka2011.warehouse.loading.loader": ("load",),
        "kafka2011.warehouse.loading.load_settings": ("LoadSettings",),
        "kafka2011.warehouse.loading.topic_load": ("Loaded",),
        "kafka2011.warehouse.table.reading": ("open_table",),
    },
)
