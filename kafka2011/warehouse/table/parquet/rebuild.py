"""A table beside that of its topic, loaded again from the log with new logic, which then takes its place.

It is a table like any other, with a name of its own, so it is loaded, read and compacted as the first one is while that
goes on. The swap is one system call: whoever opens the table gets all of the one or all of the other.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.locations import location_of, scheme_of
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)


def rebuilt_table(warehouse: str | Path, topic: str, name: str, *, spark: SparkSession | None = None) -> ParquetTable:
    """Return the table `name`, new or begun earlier, into which a topic is loaded again.

    Raises WarehouseError when that is the topic's own table, or one of another topic.
    """
    if name == topic:
        raise WarehouseError(f"topic {topic}: a rebuilt table lies beside {topic}, under another name")
    table = ParquetTable(warehouse, topic, name=name, spark=spark)
    table.newest()
    return table


def swap(warehouse: str | Path, topic: str, name: str) -> Mapping[TopicPartition, int]:
    """Put the rebuilt table `name` in the place of the topic's, which takes that name; done again, it is undone.

    Loads that are under way into either fail when they commit; the next one goes on from the offsets of the table that
    is there by then. Returns by how many bytes of the log the new one is behind, for each partition where it is: the
    next load brings them, if the log still has them. Raises WarehouseError, and nothing has changed then.
    """
    if scheme_of(location_of(warehouse)):
        raise WarehouseError(f"{warehouse} is not local: stop all loads, and rename {topic} and {name} yourself")
    old, new = ParquetTable(warehouse, topic), rebuilt_table(warehouse, topic, name)
    before, after = old.newest(), new.newest()
    for table, newest in ((old, before), (new, after)):
        if newest is None:
            raise WarehouseError(f"topic {topic}: there is no table {table.path}")
    assert before is not None
    assert after is not None
    behind = {
        where: offset - after.offsets.get(where, 0)
        for where, offset in before.offsets.items()
        if after.offsets.get(where, 0) < offset
    }
    for where, size_bytes in sorted(behind.items()):
        logger.warning("%s: table %s is %d bytes behind %s; the next load reads them", where, name, size_bytes, topic)
    try:
        LocalFiles().exchange(old.path, new.path)
    except OSError as error:
        raise WarehouseError(f"{old.path} and {new.path} cannot be exchanged: {error}") from error
    logger.info("%s is the rebuilt table now; what was there is %s", old.path, new.path)
    return behind
