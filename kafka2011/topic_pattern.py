"""Regular expressions on topic names that always come to an end.

They come from users, from files, and from the znodes of other members of a group. Python's own matching tries one way
after the other, and for some expressions, such as `(a|a)*b`, there are more ways than a name of 255 characters can be
tried in for ever; nothing else of the process runs meanwhile. So only what has few choices is left to it. All others
are followed in all ways at once, a character of the name after the other, which takes as many steps as the name has
characters, times the parts of the expression. What is no regular language (looking ahead, what a group has matched)
cannot be followed that way, and is refused where it has many choices.
"""

from __future__ import annotations

import re
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kafka2011.message.topic import MAX_DIRECTORY_NAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Node: TypeAlias = "tuple[Any, Any]"
    """A part of an expression, as the standard library's parser gives it: what it is, and its content."""

MOST_CHOICES = 2
"""Repetitions, and branches, that may come one behind the other in what is left to Python: it takes the length of the
name to that power."""
MOST_STEPS = 2000
"""Into which an expression may be taken apart; `{3,9}` counts nine times."""

_MANY = MOST_CHOICES + 1
_REPEATS = (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT)
_ENDS = (kinds.AT_END, kinds.AT_END_STRING)
_BEGINNINGS = (kinds.AT_BEGINNING, kinds.AT_BEGINNING_STRING)
_CLASSES = {
    kinds.CATEGORY_DIGIT: re.compile(r"\d"),
    kinds.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    kinds.CATEGORY_SPACE: re.compile(r"\s"),
    kinds.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    kinds.CATEGORY_WORD: re.compile(r"\w"),
    kinds.CATEGORY_NOT_WORD: re.compile(r"\W"),
}


class TopicPattern:
    """A regular expression that whole names of topics are matched with.

    Raises one of REGEX_ERRORS for what is none, or could take for ever.
    """

    def __init__(self, regex: str) -> None:
        compiled = re.compile(regex)
        parsed = parser.parse(regex)
        if choices(parsed) <= MOST_CHOICES:
            self._matches: Callable[[str], object] = compiled.fullmatch
        else:
            self._matches = PatternMachine(regex, parsed, compiled.flags).takes

    def matches(self, topic: str) -> bool:
        """Say whether the expression is that of this name. No topic has a name that is longer than a file's."""
        return len(topic) <= MAX_DIRECTORY_NAME_BYTES and bool(self._matches(topic))


def choices(nodes: Iterable[Node]) -> int:
    """Count the choices that come one behind the other; repeated choices are very many."""
    return min(sum(map(_choices_of, nodes)), _MANY)


def _choices_of(node: Node) -> int:
    kind, content = node
    if kind is kinds.SUBPATTERN:
        return choices(content[3])
    if kind in (kinds.ASSERT, kinds.ASSERT_NOT):
        return choices(content[1])
    if kind is kinds.BRANCH:
        return 1 + max(map(choices, content[1]))
    if kind in _REPEATS:
        least, most, body = content
        inner = choices(body)
        return (_MANY if inner else 1) if least != most else min(inner * least, _MANY)
    return 0 if kind in (kinds.LITERAL, kinds.NOT_LITERAL, kinds.ANY, kinds.IN, kinds.AT) else _MANY


class _Step(NamedTuple):
    """One step: a character that `test` takes leads to the next one; without a test, one goes on to `others` at once.

    `at_end` and `at_beginning` hold up whoever is elsewhere in the name.
    """

    test: Node | None = None
    others: tuple[int, ...] = ()
    at_beginning: bool = False
    at_end: bool = False


class PatternMachine:
    """An expression as steps, all of which that could have been come to are followed at once."""

    def __init__(self, regex: str, parsed: Iterable[Node], flags: int) -> None:
        self._regex = regex
        self._steps: list[_Step] = []
        if flags & ~re.UNICODE:
            raise self._refused()
        self._add_all(parsed)
        self._end = len(self._steps)

    def takes(self, name: str) -> bool:
        """Say whether the whole name can be followed to the end."""
        here = self._reached({0}, name, 0)
        for position, character in enumerate(name, 1):
            tests = ((number, self._steps[number].test) for number in here if number < self._end)
            taken = {number + 1 for number, test in tests if test is not None and _takes(test, character)}
            here = self._reached(taken, name, position)
            if not here:
                return False
        return self._end in here

    def _reached(self, numbers: set[int], name: str, position: int) -> set[int]:
        """Return the steps that are come to from these without a character, and they themselves."""
        closure, left = set(numbers), list(numbers)
        while left:
            number = left.pop()
            if number == self._end:
                continue
            step = self._steps[number]
            if (step.at_beginning and position) or (step.at_end and position < len(name)):
                continue
            for other in step.others:
                if other not in closure:
                    closure.add(other)
                    left.append(other)
        return closure

    def _refused(self) -> re.error:
        return re.error("it has too many choices to be tried: matching it could take for ever", self._regex)

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= MOST_STEPS:
            raise self._refused()
        self._steps.append(step)
        return len(self._steps) - 1

    def _add_all(self, nodes: Iterable[Node]) -> None:
        for kind, content in nodes:
            if kind in (kinds.LITERAL, kinds.NOT_LITERAL, kinds.ANY, kinds.IN):
                self._add(_Step((kind, content)))
            elif kind is kinds.SUBPATTERN and not content[1] and not content[2]:
                self._add_all(content[3])
            elif kind is kinds.BRANCH:
                self._add_branches(content[1])
            elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
                self._add_repeat(*content)
            elif kind is kinds.AT and content in (*_BEGINNINGS, *_ENDS):
                number = self._add(_Step())
                self._steps[number] = _Step(None, (number + 1,), content in _BEGINNINGS, content in _ENDS)
            else:
                raise self._refused()

    def _add_branches(self, branches: Iterable[Iterable[Node]]) -> None:
        choice = self._add(_Step())
        begins, ends = [], []
        for branch in branches:
            begins.append(len(self._steps))
            self._add_all(branch)
            ends.append(self._add(_Step()))
        self._steps[choice] = _Step(others=tuple(begins))
        for end in ends:
            self._steps[end] = _Step(others=(len(self._steps),))

    def _add_repeat(self, least: int, most: int, body: list[Node]) -> None:
        for _ in range(least):
            self._add_all(body)
        if most is kinds.MAXREPEAT:
            choice = self._add(_Step())
            self._add_all(body)
            self._add(_Step(others=(choice,)))
            self._steps[choice] = _Step(others=(choice + 1, len(self._steps)))
            return
        choices = []
        for _ in range(most - least):
            choices.append(self._add(_Step()))
            self._add_all(body)
        for choice in choices:
            self._steps[choice] = _Step(others=(choice + 1, len(self._steps)))


def _takes(test: Node, character: str) -> bool:
    kind, content = test
    if kind is kinds.ANY:
        return character != "\n"
    if kind is kinds.LITERAL:
        return bool(ord(character) == content)
    if kind is kinds.NOT_LITERAL:
        return bool(ord(character) != content)
    is_negated = content[0][0] is kinds.NEGATE
    return is_negated != any(_is_among(item, character) for item in content[is_negated:])


def _is_among(item: Node, character: str) -> bool:
    kind, content = item
    if kind is kinds.LITERAL:
        return bool(ord(character) == content)
    if kind is kinds.RANGE:
        return bool(content[0] <= ord(character) <= content[1])
    return _CLASSES[content].match(character) is not None
