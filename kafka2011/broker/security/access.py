"""Who may produce to which topics, who may consume from them, change them, and use which groups.

A file says so, and is read again when it changes.
"""

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
GROUPS = "groups"
"""Which groups may be used. Only gateways can tell: consumers of 0.7 keep groups in ZooKeeper, and brokers see none."""
CREATE_TOPICS = "topics.create"
GROW_TOPICS = "topics.grow"
DELETE_TOPICS = "topics.delete"
"""Which topics may be created, grown and deleted through a gateway. Operators' commands use ZooKeeper's ACL instead."""
SECTIONS = (PRODUCE, CONSUME, GROUPS, CREATE_TOPICS, GROW_TOPICS, DELETE_TOPICS)
EVERYBODY = "*"
_REMEMBERED = 10_000
"""The most answers that are remembered: a client may ask for any topic or group."""


class _Rule(NamedTuple):
    names: TopicPattern
    principals: frozenset[str]


class Access:
    """What principals may do, as a file of TOML says: names of topics or groups, as regular expressions, and who may.

        [produce]
        "page_views|clicks" = ["front-ends"]
        [consume]
        ".*" = ["reports", "loader"]
        "clicks" = ["*"]
        [groups]
        "reports-.*" = ["reports"]
        [topics.create]
        "reports-.*" = ["reports"]

    What no line allows is refused; "*" is everybody, also who shows no certificate. Raises ConfigError, see RulesFile.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = RulesFile("allow.file", path, SECTIONS, rules_of, clock)
        self._answers: dict[tuple[str, str, str], bool] = {}

    def may(self, principal: str, what: str, name: str) -> bool:
        """Say whether somebody may do what a section is about with a topic, or use a group."""
        if self._file.has_changed():
            self._answers.clear()
        key = principal, what, name
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            answer = self._answers[key] = any(
                rule.names.matches(name) and not rule.principals.isdisjoint((principal, EVERYBODY))
                for rule in self._file.rules[what]
            )
        return answer


def rules_of(what: str, table: dict[str, object]) -> list[_Rule]:
    """Parse the rules in a table of the file; `what` names the table in errors."""
    rules = []
    for names, principals in table.items():
        if not isinstance(principals, list) or not all(isinstance(principal, str) for principal in principals):
            raise ValueError(f'[{what}] "{names}" must be a list of names')
        try:
            rules.append(_Rule(TopicPattern(names), frozenset(principals)))
        except REGEX_ERRORS as error:
            raise ValueError(f'[{what}] "{names}": {error}') from error
    return rules
