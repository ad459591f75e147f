"""Which topics a consumer wants, by a regex on their whole names: 0.7's Whitelist and Blacklist."""

from __future__ import annotations

import re
from typing import ClassVar

from kafka2011.errors import REGEX_ERRORS, ConfigError
from kafka2011.topic_pattern import TopicPattern

# What Python's regexes allow and Java's do not; a lone '{' is a character in Python and an error in Java.
_PYTHON_ONLY = re.compile(r"\(\?[P(#]|(?<!\\)\{(?![0-9]+\})")


class TopicFilter:
    """A regex on topic names, written as 0.7 stores it: trimmed, ',' means '|', without spaces and outer quotes.

    Raises ConfigError for a regex that does not compile, here or in Java: it would stall the 0.7 members of a group.
    The same for one whose matching could take for ever.
    """

    mark: ClassVar[str]
    """The mark around the number of streams in the consumer registry."""

    def __init__(self, regex: str) -> None:
        if not isinstance(regex, str):
            raise TypeError(f"a topic filter is a regex as text, not {type(regex).__name__}")
        self.regex = regex.strip().replace(",", "|").replace(" ", "").strip("\"'")
        if not self.regex:
            raise ConfigError(f"topic filter {regex!r} is empty")
        if _PYTHON_ONLY.search(self.regex):
            raise ConfigError(f"topic filter {regex!r}, stored as {self.regex!r}, is not a regex in Java")
        try:
            self._pattern = TopicPattern(self.regex)
        except REGEX_ERRORS as error:
            raise ConfigError(f"topic filter {regex!r} is not a regex: {error}") from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.regex!r})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, TopicFilter) and self.regex == other.regex

    def __hash__(self) -> int:
        return hash((type(self), self.regex))

    def allows(self, topic: str) -> bool:
        """Say whether a topic is wanted."""
        raise NotImplementedError

    def _matches(self, topic: str) -> bool:
        return self._pattern.matches(topic)


class Whitelist(TopicFilter):
    """Allows the topics whose whole name matches."""

    mark = "*"

    def allows(self, topic: str) -> bool:
        """Say whether a topic is allowed."""
        return self._matches(topic)


class Blacklist(TopicFilter):
    """Allows all topics except those whose whole name matches."""

    mark = "!"

    def allows(self, topic: str) -> bool:
        """Say whether a topic is allowed."""
        return not self._matches(topic)
