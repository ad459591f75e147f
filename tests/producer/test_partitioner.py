"""Partitions for keys, against values that Java computed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.producer.partitioner import DefaultPartitioner, java_string_hash

# Computed by String.hashCode of Java 17; the last three columns by Math.abs(hash) % 3, % 7 and % 8.
JAVA_HASHES = [
    ("", 0, 0, 0, 0),
    ("a", 97, 1, 6, 1),
    ("member-42", 1342170769, 1, 2, 1),
    ("192.168.0.1", 55965012, 0, 5, 4),
    ("Gr\u00fc\u00dfe", 69215351, 2, 2, 7),
    ("\u65e5\u672c\u8a9e", 25921943, 2, 5, 7),
    ("\U0001f600", 1772899, 1, 2, 3),  # two UTF-16 code units
    ("x\U0001f600y", 58534910, 2, 0, 6),
    ("AaAa", 2031744, 0, 1, 0),
    ("BBBB", 2031744, 0, 1, 0),  # the same hash
    ("the quick brown fox jumps over the lazy dog", -2082818701, 1, 5, 5),
    ("\x00", 0, 0, 0, 0),
    ("\uffff\uffff\uffff", 65076255, 0, 6, 7),
]

# Computed by java.util.zip.CRC32.
JAVA_CRCS = [(b"", 0), (b"a", 3904355907), (b"123456789", 3421780262), (b"member-42", 2952771608)]


@pytest.mark.parametrize(("key", "java_hash", "of_3", "of_7", "of_8"), JAVA_HASHES)
def test_a_text_key_goes_where_07_sends_it(key: str, java_hash: int, of_3: int, of_7: int, of_8: int) -> None:
    """The hash is Java's, and the partition its absolute value modulo their number."""
    assert java_string_hash(key) == java_hash
    assert [DefaultPartitioner().partition(key, number) for number in (3, 7, 8)] == [of_3, of_7, of_8]


def test_a_long_text_has_javas_hash() -> None:
    """Also a text that is hashed in several pieces."""
    assert java_string_hash("".join(chr(ord("a") + index % 26) for index in range(1000))) == -1663881804


def test_the_hash_without_an_absolute_value_has_a_partition_too() -> None:
    """Java's Math.abs leaves -2147483648 negative, so 0.7 refuses this key; where Java has a result, it is ours."""
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert DefaultPartitioner().partition("polygenelubricants", 8) == 0
    assert [DefaultPartitioner().partition("polygenelubricants", number) for number in (3, 7)] == [2, 2]


@pytest.mark.parametrize(("key", "crc"), JAVA_CRCS)
def test_a_bytes_key_goes_by_its_crc(key: bytes, crc: int) -> None:
    """The CRC-32 is taken as an unsigned number."""
    assert [DefaultPartitioner().partition(key, number) for number in (3, 7)] == [crc % 3, crc % 7]
    assert DefaultPartitioner().partition(bytearray(key), 7) == crc % 7


@given(st.text(st.characters(exclude_categories=()), max_size=700))
def test_the_hash_is_javas_formula(text: str) -> None:
    """It equals the sum written down as a loop over UTF-16 code units."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[index : index + 2], "big")) % 2**32
    assert java_string_hash(text) == (value - 2**32 if value >= 2**31 else value)


@given(st.text() | st.binary(), st.integers(1, 10_000))
def test_every_key_has_a_partition(key: str | bytes, partitions: int) -> None:
    """It is one of those there are."""
    assert 0 <= DefaultPartitioner().partition(key, partitions) < partitions


def test_other_keys_need_another_partitioner() -> None:
    """A key that has no hash of 0.7's is refused, and the error says what to do."""
    with pytest.raises(TypeError, match=r"partitioner\.class"):
        DefaultPartitioner().partition(42, 3)
