"""The examples of docs/iceberg.md read a table as they stand, but for its path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
from tests.support.iceberg_tables import load
from tests.support.tables import FIRST_MS

TEXT = Path("docs/iceberg.md").read_text(encoding="utf-8")
READING, COUNTING = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def run(example: str, warehouse: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(example.replace("/data/lake", str(warehouse)), names)
    return names


def test_the_examples_do_what_the_text_says(tmp_path: Path) -> None:
    """Rows, and how many there are."""
    table = IcebergTable(tmp_path, "page_views")
    for _ in range(2):
        load(table, [FIRST_MS, FIRST_MS])
    assert sorted(run(READING, tmp_path)["table"]["kafka2011_offset"].to_pylist()) == [0, 100, 200, 300]
    assert run(COUNTING, tmp_path)["table"].num_rows == 4
