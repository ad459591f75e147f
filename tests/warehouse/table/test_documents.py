"""The examples of docs/warehouse.md read an evolved table, each with all its columns and rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from tests.support.tables import EVENT, FIRST_MS, OWN, load

TEXT = Path("docs/warehouse.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
OLD = pa.unify_schemas([EVENT, pa.schema([("status", pa.int64())]), OWN])
NEW = pa.unify_schemas([OLD, pa.schema([("referrer", pa.string())])])
COLUMNS = ["kafka2011_offset", "status", "referrer"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_reader_sees_all(example: str, tmp_path: Path) -> None:
    """As they stand, but for the path."""
    table = ParquetTable(tmp_path, "views", name="page_views")
    load(table, [FIRST_MS, FIRST_MS + 1], schema=1, arrow=OLD, status=[200, 404])
    load(table, [FIRST_MS], schema=2, arrow=NEW, status=[500], referrer=["/a"])
    names: dict[str, Any] = {}
    first = "from kafka2011.warehouse import open_table\n"
    exec(first + example.replace("/data/warehouse", str(tmp_path)), names)
    found = names["table"]
    if isinstance(found, pd.DataFrame):
        columns = found[COLUMNS].astype(object).where(found[COLUMNS].notna(), None).to_dict("list")
    else:
        columns = {name: found[name].to_pylist() if isinstance(found, pa.Table) else found[name] for name in COLUMNS}
    assert sorted(zip(*columns.values(), strict=True)) == [(0, 200, None), (100, 404, None), (200, 500, "/a")]


def test_the_examples_are_found() -> None:
    """One for each reader that the text names."""
    assert len(EXAMPLES) == 5
