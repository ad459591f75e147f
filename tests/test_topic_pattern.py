"""Regular expressions on topic names: what Python finds, and always an end."""

from __future__ import annotations

import re
from random import Random
from re import _parser as parser  # type: ignore[attr-defined]

import pytest

from kafka2011.errors import REGEX_ERRORS
from kafka2011.topic_pattern import MOST_CHOICES, PatternMachine, TopicPattern, choices

pytestmark = pytest.mark.timeout(60)

NAMES = ["", "a", "b", "ab", "ba", "aab", "abab", "a-b", "page_views", "b.1", "bbb", "aaaa", "ab" * 5]

ORDINARY = ["views", "view.*", "a|b", "page_.*|search.*", "(?!audit).*", "[a-z]+[0-9]{2}", "a.b.*", "^a.*$", "(?i)A.*"]
"""Few choices: they stay Python's own."""

FOR_EVER = ["(a|a)*b", "(a*)*b", "(a+)+b", "(.*.*)*b", ".*.*.*.*.*.*.*.*b", "((a|b|ab)*)+-", f"(a?){{250}}{'a' * 250}b"]


def part(rng: Random, depth: int) -> str:
    """Draw a regular expression."""
    kind = rng.randrange(4 if depth else 2)
    if kind <= 1:
        one = rng.choice(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", "[a-f1]", "-", "_", "(?:)"])
        return one + rng.choice(["", "", "*", "+?", "?", "{2}", "{1,3}", "{2,}"])
    if kind == 2:
        return "".join(part(rng, depth - 1) for _ in range(rng.randrange(1, 4)))
    inner = "|".join(part(rng, depth - 1) for _ in range(rng.randrange(1, 4)))
    return f"({inner}){rng.choice(['', '*', '+', '?', '{0,2}', '{2}'])}"


@pytest.mark.parametrize("seed", range(300))
def test_whatever_python_finds_is_found(seed: int) -> None:
    """By following all ways at once, too, whether that is needed or not."""
    rng = Random(seed)
    regex = "|".join(part(rng, 3) for _ in range(rng.randrange(1, 3)))
    if rng.random() < 0.2:
        regex = f"^{regex}$"
    machine = PatternMachine(regex, parser.parse(regex), re.compile(regex).flags)
    pattern = TopicPattern(regex)
    for name in [*NAMES, *("".join(rng.choices("ab-1", k=rng.randrange(8))) for _ in range(30))]:
        expected = re.fullmatch(regex, name) is not None
        assert (machine.takes(name), pattern.matches(name)) == (expected, expected), (regex, name)


@pytest.mark.parametrize("regex", ORDINARY)
def test_ordinary_ones_are_left_to_python(regex: str) -> None:
    """And are of few choices."""
    assert choices(parser.parse(regex)) <= MOST_CHOICES
    pattern = TopicPattern(regex)
    assert [pattern.matches(name) for name in NAMES] == [re.fullmatch(regex, name) is not None for name in NAMES]


@pytest.mark.parametrize("regex", FOR_EVER)
def test_what_python_would_try_for_ever_comes_to_an_end(regex: str) -> None:
    """With the longest name that a topic may have; a longer one is nobody's."""
    pattern = TopicPattern(regex)
    assert not pattern.matches("a" * 254 + "c")
    assert not pattern.matches("a" * 100_000)


@pytest.mark.parametrize("regex", [r"(a|b)*\1", "(?=(a|aa)*b).*c", "(?i)(a|a)*b", "(a{1,100}|b){1,100}", r"(\b|a)*b"])
def test_what_cannot_be_followed_is_refused(regex: str) -> None:
    """When it has many choices, or falls into too many steps."""
    with pytest.raises(REGEX_ERRORS, match="for ever"):
        TopicPattern(regex)
