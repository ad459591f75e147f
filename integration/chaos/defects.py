"""Defects that a run may be given, to see that its account names them: changes to shipped code, in one kind of process.

Only the programs of a run plant them, and only if the environment says so: nothing shipped knows of them.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from integration.chaos.account import commits, deletions, messages, order, ownership, repeats
from tests.support.mutation import mutated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

VARIABLE = "CHAOS_DEFECT"
"""Names the defect that the processes of a run have."""


class Change(NamedTuple):
    """A function, as `module:Class.method`, what stands in it, and what does with the defect."""

    where: str
    old: str
    new: str


class Defect(NamedTuple):
    """Which processes have it (`broker`, `member`, `producer`), the changes, and the rules any of which names it.

    One that is rare was not named within ten minutes.
    """

    process: str
    rules: tuple[str, ...]
    changes: tuple[Change, ...]
    is_rare: bool = False


_HANDLERS = "kafka2011.broker.requests.handlers:RequestHandlers."
_WINDOW = "kafka2011.producer.confirmation_window:ConfirmationWindow."
_SENDER = "kafka2011.producer.sender:Sender."

DEFECTS: Mapping[str, Defect] = {
    "a barrier is answered before the sets before it are written": Defect(
        "broker",
        (messages.LOST,),
        (
            Change(
                f"{_HANDLERS}_append",
                "log.append(data, messages)",
                "__import__('gevent').spawn_later(0.1, log.append, bytes(data), messages) and 0",
            ),
        ),
    ),
    "recovery cuts the last good message": Defect(
        "broker",
        (messages.LOST, messages.GONE),
        (
            Change(
                "kafka2011.log.recovery:_recover",
                "walk = walk_messages(fd, 0, size, progress)",
                "good = max(walk_messages(fd, 0, size, progress).messages - 1, 0)\n"
                "    walk = Walk(scan(os.pread(fd, size, 0), 0, good).end, good, 'planted')",
            ),
        ),
    ),
    "what is not on disk can be read": Defect(
        "broker",
        (messages.GONE,),
        (
            Change(  # rolls go on as they are: or a log would have a gap, with which no broker starts
                "kafka2011.log.log:Log.flush",
                "self._sync()",
                "(end := self._begin_sync()) and (setattr(self._files.list.active, 'has_remains', True),"
                " self._end_sync(end))",
            ),
            Change(
                "kafka2011.log.flush_together:_flush",
                "disk.fsync_all(begun)",
                "[(setattr(flush.segment, 'has_remains', True), flush.end(None)) for flush in begun]",
            ),
        ),
    ),
    "a clock that has jumped decides what is old": Defect(
        "broker",
        (deletions.DELETED,),
        (
            Change(
                "kafka2011.log.log_manager:LogManager.clean_up",
                "delete_old_segments(by_age=is_clock_good)",
                "delete_old_segments(by_age=True)",
            ),
        ),
    ),
    "a commit comes before the hand-out": Defect(
        "member",
        (commits.TOO_FAR,),
        (
            Change(
                "kafka2011.consumer.feed:PartitionFeed.consumed_offset.fget",
                "return chunk.in_hand.offset if chunk.list_offset is None else chunk.list_offset",
                "return chunk.end_offset",
            ),
        ),
    ),
    "a partition is released without its commit": Defect(
        "member",
        (repeats.CAME_TWICE,),
        (
            Change(
                "kafka2011.consumer.rebalancer:Rebalancer._commit_given_up",
                "self._committer.commit(given_up, last=True)",
                "[setattr(owned, 'is_closed', True) for owned in given_up]",
            ),
        ),
    ),
    "the lease is not checked": Defect(
        "member",
        (ownership.TWO_OWNERS, commits.WITHOUT_A_LEASE),
        (
            Change(
                "kafka2011.consumer.stream:MessageStream._look",
                "now_s, until_s = self._now_s(), chunk.feed.lease.until_s",
                "now_s, until_s = self._now_s(), float('inf')",
            ),
        ),
    ),
    "a partition is taken from who still owns it": Defect(
        "member",
        (ownership.TWO_OWNERS, commits.NOT_THE_OWNER, commits.WITHOUT_A_LEASE),
        (
            Change(
                "zk.owners:OwnerRegistry.claim_many",
                "return {by_path[path]: error for path, error in held.items()}",
                "return {}",
            ),
        ),
    ),
    "sets in doubt count as confirmed": Defect(
        "producer",
        (messages.LOST,),
        (
            Change(
                f"{_SENDER}_lost",
                "blamed = window.lost()",
                "self._completion.done(list(window._unconfirmed))\n"
                "    window._unconfirmed.clear()\n"
                "    blamed = window.lost()",
            ),
        ),
    ),
    "what is sent again goes behind what is newer": Defect(
        "producer",
        (order.BY_KEY,),
        (Change(f"{_WINDOW}lost", "self._waiting.appendleft(lost)", "self._waiting.append(lost)"),),
        is_rare=True,  # two sets of one key must be lost before the broker has had either; the model finds it
    ),
    "a set for a named partition goes to another": Defect(
        "producer",
        (messages.MISDIRECTED,),
        (Change(f"{_SENDER}_move", "lambda each: each.movable", "lambda each: True"),),
    ),
}


def plant(process: str) -> None:
    """Have the defect that the environment names, for good, if it is one of this kind of process."""
    defect = DEFECTS.get(os.environ.get(VARIABLE, ""))
    if defect is not None and defect.process == process:
        _planted.enter_context(changed(defect))


_planted = ExitStack()


@contextmanager
def changed(defect: Defect) -> Iterator[None]:
    """Have a defect in this process, in this block."""
    with ExitStack() as stack:
        for change in defect.changes:
            stack.enter_context(mutated(_found(change.where), change.old, change.new))
        yield


@contextmanager
def announced(name: str) -> Iterator[None]:
    """Have the processes that are started in this block have a defect."""
    os.environ[VARIABLE] = name
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def _found(where: str) -> Callable[..., Any]:
    module, _, name = where.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    function: Callable[..., Any] = found
    return function
