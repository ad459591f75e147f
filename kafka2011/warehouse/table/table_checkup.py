"""Tables that hold what an earlier release wrote wrongly: `kafka2011 doctor --warehouse`."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafka2011.events.columns.default_texts import default_texts
from kafka2011.warehouse.table.dataset import dataset_of
from kafka2011.warehouse.table.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow.dataset as ds

    from kafka2011.events.columns.default_texts import DefaultTexts
    from kafka2011.events.schemas import EventSchema


class TextsOfBytes(NamedTuple):
    """Counts the texts of bytes in a column of a topic's table."""

    topic: str
    table_path: str
    column: str
    values: int


def examine_tables(warehouse: str, schemas: Mapping[str, Iterable[EventSchema]]) -> Iterator[TextsOfBytes]:
    """Yield the columns with texts of bytes in place of decimals, in the tables of topics with these schemas.

    Raises WarehouseError where a table cannot be read.
    """
    for topic, of_topic in schemas.items():
        texts = default_texts(of_topic)
        if not texts.whole:
            continue
        table = TopicTable(warehouse, topic)
        if table.seen() is None:
            continue
        for column, count in count_texts(dataset_of(table.delta(), table.path, table.files), texts).items():
            yield TextsOfBytes(topic, table.path, column, count)


def count_texts(dataset: ds.Dataset, texts: DefaultTexts) -> dict[str, int]:
    """Return the number of values in each column of a table that are such texts; columns without any are left out."""
    names = [field.name for field in dataset.schema if _has_texts(field.type)]
    whole, parts = pa.array(sorted(texts.whole)), "|".join(map(re.escape, sorted(texts.parts)))
    counts: Counter[str] = Counter()
    for batch in dataset.to_batches(columns=names):
        for name in names:
            for values in _texts_in(batch.column(name)):
                is_wrong = pc.or_(pc.is_in(values, value_set=whole), pc.match_substring_regex(values, parts))
                counts[name] += pc.sum(is_wrong).as_py() or 0
    return {name: count for name, count in counts.items() if count}


def _has_texts(kind: pa.DataType) -> bool:
    """Whether values of a column's type are texts, or hold some."""
    return pa.types.is_string(kind) or any(_has_texts(kind.field(number).type) for number in range(kind.num_fields))


def _texts_in(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of text within an array."""
    if pa.types.is_string(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for inner in array.flatten():
            yield from _texts_in(inner)
    elif pa.types.is_map(array.type):
        yield from _texts_in(array.items)
    elif pa.types.is_list(array.type):
        yield from _texts_in(array.flatten())
