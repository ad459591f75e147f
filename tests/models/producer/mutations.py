"""Defects that the producer could have: one change each to the shipped code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.producer.accumulator import Accumulator
from kafka2011.producer.batch import Bound, ListFuture
from kafka2011.producer.completion import Completion
from kafka2011.producer.confirmation_window import ConfirmationWindow
from kafka2011.producer.producer import Producer
from kafka2011.producer.producer_connection import ProducerConnection
from kafka2011.producer.sender import Sender

if TYPE_CHECKING:
    from collections.abc import Callable


class Mutation(NamedTuple):
    """A defect, and the change that makes it."""

    defect: str
    function: Callable[..., Any]
    old: str
    new: str
    is_rare: bool = False  # it takes thousands of schedules to meet it


MUTATIONS = (
    Mutation(
        "a barrier's answer counts for sets sent after it",
        ConfirmationWindow.answered,
        "range(self._asked)",
        "range(len(self._unconfirmed))",
    ),
    Mutation(
        "the window is not emptied when a connection is lost",
        ConfirmationWindow.lost,
        "self._unconfirmed.clear()",
        "pass",
    ),
    Mutation(
        "an unanswered barrier outlives its connection",
        ConfirmationWindow.lost,
        "self._asked = 0",
        "pass",
    ),
    Mutation(
        "what is sent again goes behind what is newer",
        ConfirmationWindow.lost,
        "self._waiting.appendleft(lost)",
        "self._waiting.append(lost)",
    ),
    Mutation(
        "what was not written comes back in reverse",
        ConfirmationWindow.not_written,
        "reversed(self._unconfirmed)",
        "self._unconfirmed",
        is_rare=True,
    ),
    Mutation(
        "a set in doubt is not sent alone",
        ConfirmationWindow.send,
        "while self.can_send:",
        "while self._waiting:",
    ),
    Mutation(
        "messages' room is given back twice",
        Accumulator._release,
        "bound.room_messages += batch.messages",
        "bound.room_messages += 2 * batch.messages",
    ),
    Mutation(
        "bytes' room is never given back",
        Accumulator._release,
        "bound.room_bytes += batch.size_bytes",
        "pass",
    ),
    Mutation(
        "the bound of bytes is not checked",
        Bound.fits,
        " and size_bytes <= self.room_bytes",
        "",
    ),
    Mutation(
        "who waits for room is not woken",
        Accumulator._release,
        "queue.has_room.notify_all()",
        "pass",
    ),
    Mutation(
        "a closed producer takes messages",
        Accumulator._check_open,
        "if self.is_closed:",
        "if False:",
    ),
    Mutation(
        "a ready set overtakes what was sent before it",
        Accumulator.append_set,
        "self.close(before)",
        "pass",
    ),
    Mutation(
        "keys are forgotten",
        Accumulator._append,
        "batch.keys += keys",
        "pass",
    ),
    Mutation(
        "a sender ends while a batch comes from another broker",
        Accumulator.retire,
        "queue.is_retired = not queue.ready",
        "queue.is_retired = True",
        is_rare=True,
    ),
    Mutation(
        "a batch that can go nowhere is dropped when its broker is lost",
        Sender._move,
        "self._window.add([batch])",
        "pass",
    ),
    Mutation(
        "sets do not run out of time",
        Sender._expire,
        "each.deadline_s <= now_s",
        "False",
    ),
    Mutation(
        "a set that is refused stays",
        Sender._refuse,
        "self._window.remove(lambda each: each is blamed)",
        "pass",
    ),
    Mutation(
        "the future of a failed batch ends well",
        Completion._finish,
        "future.end(receipt, error)",
        "future.end(receipt, None)",
    ),
    Mutation(
        "the application is not told",
        Completion.close,
        "self._thread.join(_JOIN_S)",
        "pass",
    ),
    Mutation(
        "a list is done when a part of it is",
        ListFuture.ended,
        "if self._open_batches:",
        "if False:",
    ),
    Mutation(
        "closing does not wait for the broker",
        ProducerConnection.finish,
        "if not self.drain_and_close():",
        "if self.close():",
        is_rare=True,
    ),
    Mutation(
        "closing waits for one sender of those that are left",
        Producer.close,
        "while self._senders:",
        "if self._senders:",
    ),
)
