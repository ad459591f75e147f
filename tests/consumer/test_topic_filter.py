"""Topic filters, written and matched as 0.7 does it."""

from __future__ import annotations

import pytest

from kafka2011.consumer.topic_filter import Blacklist, Whitelist
from kafka2011.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("views", "views"),
        ("  views\t\n", "views"),
        ("views,clicks", "views|clicks"),
        ("views, clicks , likes", "views|clicks|likes"),
        ('"views"', "views"),
        ("'views, clicks'", "views|clicks"),
        ("\"'views'\"", "views"),
        ("vi'ews", "vi'ews"),
        ("view.*|click[0-9]{1}", "view.*|click[0-9]{1}"),
    ],
)
def test_a_regex_is_stored_as_07_stores_it(given: str, stored: str) -> None:
    """Trimmed, ',' means '|', spaces and outer quotes go."""
    assert Whitelist(given).regex == stored
    assert Blacklist(given).regex == stored


@pytest.mark.parametrize(
    ("regex", "topic", "matches"),
    [
        ("view", "view", True),
        ("view", "views", False),
        ("view", "a-view", False),
        ("view.*", "views", True),
        ("a|ab", "ab", True),
        ("a,b", "b", True),
        ("a,b", "a|b", False),
        ("a,b", "a,b", False),
    ],
)
def test_a_filter_matches_whole_names(regex: str, topic: str, matches: bool) -> None:
    """A blacklist allows just what a whitelist does not."""
    assert Whitelist(regex).allows(topic) is matches
    assert Blacklist(regex).allows(topic) is not matches


@pytest.mark.parametrize("regex", ["", "  ", '""', "'", "(", "a{1,2}", "a{", "(?P<x>a)", "*", "a**", "[z-a]"])
def test_a_filter_that_makes_no_sense_is_refused(regex: str) -> None:
    """It would stall the 0.7 members of the group."""
    with pytest.raises(ConfigError, match="topic filter"):
        Whitelist(regex)


def test_filters_are_values() -> None:
    """Equal by kind and regex."""
    assert Whitelist("a,b") == Whitelist("a|b")
    assert Whitelist("a") != Blacklist("a")
    assert len({Whitelist("a"), Whitelist(" a "), Blacklist("a")}) == 2
    assert repr(Whitelist("a")) == "Whitelist('a')"
