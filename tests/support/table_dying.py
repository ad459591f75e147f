"""A process that loads into a table, or compacts it; `table_kills` kills it.

python -m tests.support.table_dying WAREHOUSE load|compact
"""

from __future__ import annotations

import sys

from kafka2011.warehouse.table.compaction import compact
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC, load


def main() -> None:
    """Do what is to be interrupted."""
    warehouse, what = sys.argv[1:]
    table = TopicTable(warehouse, TOPIC)
    if what == "load":
        load(table, [FIRST_MS, FIRST_MS + HOUR_MS])
    else:
        compact(table)


if __name__ == "__main__":
    main()
