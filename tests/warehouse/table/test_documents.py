"""The examples of docs/how-to/warehouse.md read a table as they stand, but for its path. Proofs have the last ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka2011.events.columns.column_types import table_columns
from kafka2011.events.types import PAGE_VIEW
from kafka2011.warehouse.rows.columns import table_schema
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, SCHEMA, TOPIC, load

TEXT = Path("docs/how-to/warehouse.md").read_text(encoding="utf-8")
READING, COUNTING, POLARS, NAMES, *_OF_PROOFS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def run(example: str, warehouse: Path) -> Any:
    names: dict[str, Any] = {}
    exec(example.replace("/data/warehouse", str(warehouse)), names)
    return names["table"]


def test_the_examples_do_what_the_text_says(tmp_path: Path) -> None:
    """Of a table with the columns that page views have."""
    table = TopicTable(tmp_path, TOPIC, name="page_views")
    columns = table_schema(table_columns(PAGE_VIEW, "page_views"))
    nulls = {field.name: pa.nulls(2, field.type) for field in columns if field.name not in SCHEMA.names}
    for _ in range(2):
        load(table, [FIRST_MS, FIRST_MS], columns, **{**nulls, "url": ["/", "/jobs"]})
    assert sorted(run(READING, tmp_path)["kafka2011_offset"].to_pylist()) == [100, 200, 300]
    assert run(COUNTING, tmp_path).num_rows == 2
    assert sorted(run(POLARS, tmp_path)["kafka2011_offset"].to_list()) == [0, 100, 200, 300]
    assert sorted(run(NAMES, tmp_path)["kafka2011_offset"].to_pylist()) == [0, 100, 200, 300]
