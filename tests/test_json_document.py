"""JSON objects that are read back."""

from __future__ import annotations

from typing import Any

import pytest

from kafka2011.errors import KafkaError
from kafka2011.json_document import read_document
from zk.cluster import TopicPartition


class SpoiledError(KafkaError):
    pass


def number_of(document: dict[str, Any]) -> int:
    return int(document["number"])


def partition_of(document: dict[str, Any]) -> TopicPartition:
    return TopicPartition.from_znode_name("views", document["partition"].strip())


def test_a_document_is_read() -> None:
    """Of the version that is understood, or of none."""
    assert read_document('{"version": 2, "number": "7"}', number_of, SpoiledError, "", version=2) == 7
    assert read_document(b'{"number": 7}', number_of, SpoiledError, "") == 7


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not JSON: Expecting value"),
        (b'{"version": 1', "it is not JSON: Expecting"),
        (b"\xff", "it is not JSON: 'utf-8' codec"),
        (100_000 * "[", "it is not JSON: (maximum recursion depth|Stack overflow)"),
        ('["version"]', r"it is \"\['version'\]\", not an object"),
        ("1", "it is '1', not an object"),
        ('{"number": 7}', "its version is None, and 1 is understood"),
        ('{"version": "1", "number": 7}', "its version is '1', and 1 is understood"),
        ('{"version": 1}', "it has no 'number'"),
        ('{"version": 1, "number": "x"}', "ValueError: invalid literal"),
        ('{"version": 1, "number": []}', "TypeError: int"),
    ],
)
def test_anything_else_is_refused_by_the_callers_error(text: str | bytes, why: str) -> None:
    """It says where that stood, and what is wrong."""
    with pytest.raises(SpoiledError, match=f"^/a/b is spoiled: {why}"):
        read_document(text, number_of, SpoiledError, "/a/b is spoiled", version=1)


@pytest.mark.parametrize(("value", "why"), [('"0+1"', "MalformedNode: "), ("5", "AttributeError: ")])
def test_what_is_no_partition_is_refused(value: str, why: str) -> None:
    """Values are checked by who takes them."""
    with pytest.raises(SpoiledError, match=f"^/a/b is spoiled: {why}"):
        read_document(f'{{"partition": {value}}}', partition_of, SpoiledError, "/a/b is spoiled")


def test_a_document_of_a_version_is_not_taken_for_one_without() -> None:
    """A reader that knows no versions does not know what has changed."""
    with pytest.raises(SpoiledError, match="its version is 1, and None is understood"):
        read_document('{"version": 1, "number": 7}', number_of, SpoiledError, "/a/b is spoiled")
