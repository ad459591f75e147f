"""From the brokers into tables: loads that never duplicate, and reports on them (paper, section 4).

`open_table` is loaded when it is first used: it needs PyArrow, and the commands should not wait for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka2011.warehouse.dataset import open_table

__all__ = ["open_table"]


def __getattr__(name: str) -> Any:
    if name == "open_table":
        from kafka2011.warehouse.dataset import open_table  # noqa: PLC0415 (see above)

        return open_table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
