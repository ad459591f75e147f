"""Rows of a table as JSON that is the same whichever reader they come from.

It imports nothing but the standard library: the text of this module is run in environments of other readers too.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: maps and records as sorted pairs, times in UTC, bytes in hex."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, list | tuple):
        if not value or any(not isinstance(each, dict) or set(each) != {"key", "value"} for each in value):
            return [plain(each) for each in value]
        value = {each["key"]: each["value"] for each in value}  # as some readers give a map
    if isinstance(value, dict):
        return sorted([str(key), plain(each)] for key, each in value.items())
    return value


def line_of(rows: list[dict[str, Any]]) -> str:
    """Return rows as one line, in the order of the log."""
    ordered = sorted(rows, key=lambda row: (row["kafka2011_partition"], row["kafka2011_offset"]))
    return json.dumps([plain(row) for row in ordered])
