"""JSON objects that are read back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from kafka2011.errors import KafkaError
from kafka2011.json_document import json_text, read_document
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


NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


@pytest.mark.parametrize("number", [*NOT_FINITE, math.nan])
def test_floats_that_are_no_numbers_in_json_are_written_as_texts(number: float) -> None:
    """They are at any depth; all else stays as it is, and readers that are strict take it."""
    value = {"a": number, "b": [1.5, (number,), {"c": number}], "d": "NaN", "e": None, "ü": 2**70}
    text = json_text(value)
    word = NOT_FINITE.get(number, "NaN")

    def refused(constant: str) -> None:
        raise ValueError(constant)

    found = json.loads(text, parse_constant=refused)
    assert found == {"a": word, "b": [1.5, [word], {"c": word}], "d": "NaN", "e": None, "ü": 2**70}
    assert "ü" in text


def test_what_json_has_not_is_written_by_the_default() -> None:
    """The default is also applied beside a float that is no number."""
    assert json_text([b"x", 1.0], default=bytes.decode) == '["x", 1.0]'
    assert json_text([b"x", math.nan], default=bytes.decode, indent=1) == '[\n "x",\n "NaN"\n]'
