"""Names of topics and of their directories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.message.topic import InvalidTopicError, log_directory_name, parse_log_directory_name, validate_topic


@pytest.mark.parametrize("topic", ["t", "page-views", "a.b_c-9", "...", "-", "0", "T" * 253])
def test_plain_names_are_taken(topic: str) -> None:
    """Letters, digits, '.', '_' and '-' make a name, as long as its directory's name fits."""
    validate_topic(topic)


@pytest.mark.parametrize(
    "topic",
    ["", ".", "..", "../x", "a/b", "a b", "a\n", "\n", "a\0", "\u00e9", "\u0660", "a:b", "a,b", "*", "T" * 254],
)
def test_other_names_are_refused(topic: str) -> None:
    """Whatever could leave the directory, break a znode or confuse a person is refused, with the name in the text."""
    with pytest.raises(InvalidTopicError, match="topic"):
        validate_topic(topic)


def test_the_partition_counts_towards_the_length_of_the_directory() -> None:
    """255 bytes are the limit of a file name, and `{topic}-{partition}` must fit."""
    validate_topic("T" * 252, partition=10)
    with pytest.raises(InvalidTopicError, match="252 characters"):
        validate_topic("T" * 252, partition=100)


def test_the_limit_on_length_can_be_lowered() -> None:
    """max.topic.name.length applies where it is less."""
    validate_topic("abc", max_topic_name_length=3)
    with pytest.raises(InvalidTopicError, match="at most 3"):
        validate_topic("abcd", max_topic_name_length=3)


def test_the_text_of_a_refusal_is_bounded() -> None:
    """A name of a megabyte does not go into the log as a whole."""
    with pytest.raises(InvalidTopicError) as caught:
        validate_topic("/" * 1_000_000)
    assert len(str(caught.value)) < 500


@given(st.from_regex(r"[A-Za-z0-9._-]{1,50}", fullmatch=True), st.integers(0, 2**31 - 1))
def test_directory_names_are_read_back(topic: str, partition: int) -> None:
    """The last '-' divides, so a topic may hold some itself."""
    assert parse_log_directory_name(log_directory_name(topic, partition)) == (topic, partition)


@pytest.mark.parametrize(
    "name",
    ["", "t", "t-", "-0", "t-x", "t-1x", "t--", "t-\u0661", "t-\u00b2", "t-+1", "t- 1", "t-1\n", "t-" + "9" * 5000],
)
def test_other_directories_are_no_logs(name: str) -> None:
    """What has no topic, or no decimal number behind the last '-', is nobody's log."""
    assert parse_log_directory_name(name) is None
