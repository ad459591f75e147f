"""What a member subscribes to: texts to the byte as 0.7 writes them, and what makes no sense in those of others."""

from __future__ import annotations

import pytest

from kafka2011.consumer.topic_count import MAX_STREAMS, MalformedSubscriptionError, TopicCount
from kafka2011.consumer.topic_filter import Blacklist, TopicFilter, Whitelist
from kafka2011.errors import ConfigError
from tests.support.znodes_of_07 import DUMPS

TEXTS = ['{ "multi": 2,"cap": 1 }', '{ "multi": 1 }', "*1*cap", "*1*cap|caprand", "!12!test-.*", "*2*a*", "!1!a{2}"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_written_as_it_was_read(text: str) -> None:
    """To the byte."""
    assert TopicCount.parse(text).text == text


def test_texts_of_a_running_07_are_read_and_written() -> None:
    """The ids nodes of its members."""
    found = [node.data or "" for dump in DUMPS.values() for node in dump if "/ids/g" in node.path]
    assert len(found) == 4
    assert [TopicCount.parse(text).text for text in found] == found


def test_a_static_subscription() -> None:
    """In the order that the application gave."""
    count = TopicCount.static({"b": 2, "a": 1})
    assert count.text == '{ "b": 2,"a": 1 }'
    assert count.topics(["c"]) == ["b", "a"]
    assert [count.streams_of(topic) for topic in "abc"] == [1, 2, 0]
    assert TopicCount.parse(count.text) == count


@pytest.mark.parametrize(
    ("topic_filter", "text", "wanted"),
    [(Whitelist("a.*, b"), "*3*a.*|b", ["a1", "b"]), (Blacklist("a.*, b"), "!3!a.*|b", ["b2", "c"])],
)
def test_a_filtered_subscription(topic_filter: TopicFilter, text: str, wanted: list[str]) -> None:
    """The known topics that it allows, with the same number of streams each."""
    count = TopicCount.filtered(topic_filter, 3)
    assert count.text == text
    assert count.topics(["a1", "b", "b2", "c"]) == wanted
    assert [count.streams_of(topic) for topic in ("b", "b2")] == ([3, 0] if "b" in wanted else [0, 3])
    assert TopicCount.parse(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "null",
        "[]",
        '"t"',
        "3",
        "{",
        '{ "t": 0 }',
        '{ "t": -1 }',
        '{ "t": 1.0 }',
        '{ "t": true }',
        '{ "t": "1" }',
        '{ "t": null }',
        f'{{ "t": {MAX_STREAMS + 1} }}',
        f'{{ "t": {"9" * 5000} }}',
        "[" * 100_000,
        "*1*",
        "*0*a",
        "*x*a",
        "*1!a",
        "**a",
        "*1*(",
        "!1!a{1,2}",
        "*-1*a",
        "*9999999999*a",
        "*\N{ARABIC-INDIC DIGIT ONE}*a",
    ],
)
def test_a_malformed_subscription_is_an_error_and_nothing_else(text: str) -> None:
    """One such node stalls every 0.7 member; ours must be able to tell and to go on."""
    with pytest.raises(MalformedSubscriptionError) as caught:
        TopicCount.parse(text)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "topics", [{}, {"t": 0}, {"t": -1}, {"t": True}, {"t": 1.5}, {"t": MAX_STREAMS + 1}, {"": 1}, {"a/b": 1}, {'"': 1}]
)
def test_a_subscription_that_would_stall_others_is_never_made(topics: dict[str, int]) -> None:
    """Refused before anything is written."""
    with pytest.raises(ConfigError):
        TopicCount.static(topics)


@pytest.mark.parametrize("streams", [0, -1, MAX_STREAMS + 1])
def test_a_filter_needs_a_number_of_streams(streams: int) -> None:
    """As a static subscription does."""
    with pytest.raises(ConfigError, match="number of streams"):
        TopicCount.filtered(Whitelist("a"), streams)
