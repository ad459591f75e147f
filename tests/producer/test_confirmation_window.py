"""The window of unconfirmed sets, against a simulated broker that serves in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kafka2011.producer import confirmation_window
from kafka2011.producer.batch import Batch, Bound
from kafka2011.producer.confirmation_window import ConfirmationWindow
from kafka2011.producer.sender import MAX_REFUSALS
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    import pytest

MAX_SETS = 5
MAX_BYTES = 40


def a_set(number: int, size: int = 1) -> Batch:
    batch = Batch(TopicPartition("t", 0, 0), Bound(1000, 1000), 1000, 1000, 0.0, movable=False)
    batch.data = b"%d" % number + b"x" * size
    return batch


class Connection:
    """One connection to a broker that ends it at the first set it refuses, and reads only when told to."""

    def __init__(self, log: list[Batch], poison: set[int]) -> None:
        self._log = log
        self._poison = poison
        self._unread: list[Batch | None] = []  # None is a barrier
        self.answers = 0
        self.open = True

    def push(self, sets: list[Batch]) -> None:
        self._unread += sets

    def push_barrier(self) -> None:
        self._unread.append(None)

    def serve(self, requests: int) -> None:
        while self.open and self._unread and requests:
            requests -= 1
            following = self._unread.pop(0)
            if following is None:
                self.answers += 1
            elif id(following) in self._poison:
                self.open = False
            else:
                self._log.append(following)


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=25),
    poison_at=st.sets(st.integers(0, 24), max_size=3),
    kills=st.integers(0, MAX_REFUSALS - 1),
    data=st.data(),
)
def test_every_set_arrives_in_order_or_is_refused(
    sizes: list[int], poison_at: set[int], kills: int, data: st.DataObject
) -> None:
    """Whatever is lost when: good sets are confirmed, written and first written in order; only bad ones are refused.

    What is unconfirmed stays bounded, what is confirmed was written, and the number of connections is bounded too.
    """
    sets = [a_set(number, size) for number, size in enumerate(sizes)]
    poison = {id(each) for number, each in enumerate(sets) if number in poison_at}
    window = ConfirmationWindow(MAX_SETS, MAX_BYTES)
    log: list[Batch] = []
    confirmed: list[Batch] = []
    refused: list[Batch] = []
    to_add = list(sets)
    connection = Connection(log, poison)
    connections = 1
    while to_add or not window.empty:
        if to_add and (window.empty or not data.draw(st.booleans(), "add later")):
            count = len(to_add) - data.draw(st.integers(0, len(to_add) - 1), "left out")
            window.add(to_add[:count])
            del to_add[:count]
        if not window.unconfirmed or not data.draw(st.booleans(), "send later"):
            sent = window.send(data.draw(st.integers(1, 5), "at most"))
            assert sent or window.unconfirmed
            connection.push(sent)
        assert window.unconfirmed <= MAX_SETS
        assert window.unconfirmed_bytes <= MAX_BYTES or window.unconfirmed == 1
        if window.may_ask and not data.draw(st.booleans(), "ask later"):
            window.ask()
            connection.push_barrier()
        connection.serve(10 - data.draw(st.integers(0, 10), "left unserved"))
        if connection.answers:
            answers = data.draw(st.integers(1, connection.answers), "answers read")
            connection.answers -= answers
            confirmed += window.answered(answers)
        if kills and data.draw(st.integers(0, 9), "kill") == 9:
            kills -= 1
            connection.open = False
        if not connection.open:
            blamed = window.lost()
            if blamed is not None:
                blamed.refusals += 1
                if blamed.refusals == MAX_REFUSALS:
                    assert window.remove(lambda each: each is blamed) == [blamed]  # noqa: B023
                    refused.append(blamed)
            connection = Connection(log, poison)
            connections += 1
        assert set(map(id, confirmed)) <= set(map(id, log))
    good = [each for each in sets if id(each) not in poison]
    assert confirmed == good
    assert list(dict.fromkeys(log)) == good
    assert refused == [each for each in sets if id(each) in poison]
    assert connections <= 1 + MAX_REFUSALS + (MAX_REFUSALS + 1) * len(poison)


def test_one_barrier_stands_behind_several_sets() -> None:
    """Its answer confirms what was sent before it, and nothing behind it."""
    window = ConfirmationWindow(10, 1000)
    sets = [a_set(number) for number in range(5)]
    window.add(sets[:3])
    assert window.send() == sets[:3]
    window.ask()
    window.add(sets[3:])
    assert window.send() == sets[3:]
    assert window.barriers == 1
    assert window.answered() == sets[:3]
    assert (window.barriers, window.unconfirmed) == (0, 2)


def test_several_barriers_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stands behind what was sent since the one before; there is a limit to them, and none behind nothing."""
    monkeypatch.setattr(confirmation_window, "MOST_BARRIERS", 3)
    window = ConfirmationWindow(10, 1000)
    sets = [a_set(number) for number in range(6)]
    window.add(sets)
    for _ in range(3):
        assert len(window.send(1)) == 1
        window.ask()
    assert len(window.send(most_bytes=3)) == 2
    assert not window.may_ask
    assert window.answered() == sets[:1]
    assert window.may_ask
    window.ask()
    assert window.answered(3) == sets[1:5]
    assert not window.may_ask
    assert window.send() == sets[5:]
    window.ask()
    window.lost()
    assert (window.barriers, window.may_ask) == (0, False)


def test_sets_in_doubt_are_sent_again_alone_before_all_others() -> None:
    """After a loss each goes by itself, oldest first, until all that were in doubt are through."""
    window = ConfirmationWindow(10, 1000)
    sets = [a_set(number) for number in range(4)]
    window.add(sets[:2])
    window.send()
    window.add(sets[2:])
    assert window.lost() is None  # two were on the way: nobody can be blamed
    for expected in ([sets[0]], [sets[1]], sets[2:]):
        assert window.send() == expected
        assert not window.can_send
        window.ask()
        assert window.answered() == expected
    assert [each.tries for each in sets] == [2, 2, 1, 1]


def test_what_was_written_is_forgotten_and_what_was_not_comes_back_in_order() -> None:
    """Unconfirmed, a request that was handed over is done, and one that was not stands before all others."""
    window = ConfirmationWindow(10, 1000)
    sets = [a_set(number) for number in range(4)]
    window.add(sets)
    assert window.send() == sets
    window.written(sets[:1])
    window.not_written()
    assert (window.unconfirmed, window.unconfirmed_bytes) == (0, 0)
    assert window.send() == sets[1:]
    assert not any(each.suspect for each in sets)


def window_of(*sizes: int) -> ConfirmationWindow:
    """Return a window for sets of these sizes, none of them sent."""
    window = ConfirmationWindow(MAX_SETS, MAX_BYTES)
    window.add(a_set(number, size - 1) for number, size in enumerate(sizes))
    return window


def test_the_bytes_of_a_window_are_those_that_are_unconfirmed() -> None:
    """Whichever way they leave it."""
    window = window_of(10, 20, 10, 5)
    assert [len(each.data) for each in window.send()] == [10, 20, 10]
    assert window.unconfirmed_bytes == 40
    window.ask()
    window.answered()
    assert window.unconfirmed_bytes == 0
    [last] = window.send()
    assert window.unconfirmed_bytes == 5
    window.written([last])
    assert window.unconfirmed_bytes == 0
    for give_back in (ConfirmationWindow.not_written, ConfirmationWindow.lost):
        window = window_of(30, 30)
        assert len(window.send()) == 1
        give_back(window)
        assert (window.unconfirmed_bytes, window.waiting) == (0, 2)
        assert len(window.send()) == 1


def test_a_window_is_full_at_its_bytes_exactly() -> None:
    """One that fills it goes, and one byte more waits; alone, any set goes."""
    assert len(window_of(20, 20).send()) == 2
    assert len(window_of(20, 21).send()) == 1
    assert len(window_of(41, 1).send()) == 1


def test_the_first_deadline_is_that_of_the_oldest() -> None:
    """Sent or not; without sets there is none."""
    window = window_of(1, 1)
    assert window_of().first_deadline_s is None
    for number, batch in enumerate(window._waiting):
        batch.deadline_s = number
    assert window.first_deadline_s == 0
    assert len(window.send()) == 2
    assert window.first_deadline_s == 0
    window.written([window._unconfirmed[0]])
    assert window.first_deadline_s == 1
