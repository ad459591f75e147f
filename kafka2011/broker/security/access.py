"""Who may produce to which topics, and who may consume from them, by a file that is read again when it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.broker.security.rules_file import RulesFile
from kafka2011.errors import REGEX_ERRORS
from kafka2011.topic_pattern import TopicPattern

if TYPE_CHECKING:
    from pathlib import Path

    from zk.clock import Clock

PRODUCE = "produce"
CONSUME = "consume"
EVERYBODY = "*"
_REMEMBERED = 10_000
"""So many answers are remembered: a client may ask for any topic."""


class _Rule(NamedTuple):
    topics: TopicPattern
    principals: frozenset[str]


class Access:
    """What principals may do, as a file of TOML says: topics' names, as regular expressions, and who may.

        [produce]
        "page_views|clicks" = ["front-ends"]
        [consume]
        ".*" = ["reports", "loader"]
        "clicks" = ["*"]

    What no line allows is refused; "*" is everybody, also who shows no certificate. Raises ConfigError, see RulesFile.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = RulesFile("allow.file", path, (PRODUCE, CONSUME), rules_of, clock)
        self._answers: dict[tuple[str, str, str], bool] = {}

    def may(self, principal: str, what: str, topic: str) -> bool:
        """Say whether somebody may produce to, or consume from, a topic."""
        if self._file.has_changed():
            self._answers.clear()
        key = principal, what, topic
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            answer = self._answers[key] = any(
                rule.topics.matches(topic) and not rule.principals.isdisjoint((principal, EVERYBODY))
                for rule in self._file.rules[what]
            )
        return answer


def rules_of(what: str, table: dict[str, object]) -> list[_Rule]:
    """Parse the rules in a table of the file; `what` names the table in errors."""
    rules = []
    for topics, principals in table.items():
        if not isinstance(principals, list) or not all(isinstance(principal, str) for principal in principals):
            raise ValueError(f'[{what}] "{topics}" must be a list of names')
        try:
            rules.append(_Rule(TopicPattern(topics), frozenset(principals)))
        except REGEX_ERRORS as error:
            raise ValueError(f'[{what}] "{topics}": {error}') from error
    return rules
