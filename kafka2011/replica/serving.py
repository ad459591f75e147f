"""What a leader answers to clients about an offset: nothing that a later leader would have to take back."""

from __future__ import annotations

from enum import Enum, auto


class Answer(Enum):
    """How a fetch is answered."""

    DATA = auto()
    EMPTY = auto()
    OUT_OF_RANGE = auto()
    CLOSE = auto()
    """Not at all: the connection is closed."""


def answer_to_fetch(offset: int, start: int, readable: int, appended: int, *, is_leading: bool) -> Answer:
    """Say how to answer a fetch, from the start of the log and its ends.

    `is_leading` says whether the lease on the lead has not run out, as of now. What is appended and not readable yet
    may have been readable at the leader before: whoever is there waits, and is not told to start over.
    """
    if not is_leading:
        return Answer.CLOSE
    if not start <= offset <= appended:
        return Answer.OUT_OF_RANGE
    return Answer.DATA if offset < readable else Answer.EMPTY
