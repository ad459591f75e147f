"""Numbers that several threads add to."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from kafka2011.collect.counts import CollectCounts
from kafka2011.collect.log_handler import LogCounts
from kafka2011.consumer.fetcher import FetchCounts
from kafka2011.counters import Counters
from kafka2011.mirror.forwarder import ForwardCounts
from kafka2011.producer.counts import Counts


@dataclass(slots=True)
class Apples(Counters):
    """Numbers of a test."""

    red: int = 0
    green: int = 0


def test_it_adds_and_gives_all_numbers() -> None:
    """Also those that nothing was added to; a name that does not exist is an error."""
    apples = Apples()
    apples.add(red=2)
    apples.add(red=1, green=0)
    assert (apples.red, apples.as_dict()) == (3, {"red": 3, "green": 0})
    assert apples() == apples.as_dict()
    with pytest.raises(AttributeError):
        apples.add(blue=1)


def test_no_thread_adds_to_what_another_one_has_read() -> None:
    """It waits until the sum is written, or one of both would be lost."""
    apples = Apples()
    other = threading.Thread(target=lambda: apples.add(red=1))

    class Interrupted(int):
        """Lets another thread add while it is itself being added."""

        def __radd__(self, before: int) -> int:
            other.start()
            other.join(0.1)
            return before + int(self)

    apples.add(red=Interrupted(1))
    other.join()
    assert apples.red == 2


@pytest.mark.parametrize("counts", [CollectCounts(), Counts(), FetchCounts(), ForwardCounts(), LogCounts()], ids=type)
def test_every_number_starts_at_zero_and_can_be_read(counts: Counters) -> None:
    """As an attribute, and among all of them, also after something was added to each."""
    names = list(counts.as_dict())
    assert names
    assert counts.as_dict() == dict.fromkeys(names, 0)
    counts.add(**dict.fromkeys(names, 2))
    assert {name: getattr(counts, name) for name in names} == counts.as_dict() == dict.fromkeys(names, 2)
