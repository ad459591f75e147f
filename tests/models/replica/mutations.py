"""Defects that replication could have: changes to the shipped rules, each with a walk or a scenario that meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.log import retention
from kafka2011.replica import comparison, serving, state
from kafka2011.replica.barriers import ClientAppends
from kafka2011.replica.comparison import Comparison
from kafka2011.replica.followed_log import FollowedLog
from kafka2011.replica.in_sync import InSync
from kafka2011.replica.known import Known
from kafka2011.replica.state import ReplicaState
from kafka2011.replica.term import Term, _Follower

if TYPE_CHECKING:
    from collections.abc import Callable


class Mutation(NamedTuple):
    """A defect, the change that makes it, and the walk or scenario that meets it; `also` is one more change."""

    defect: str
    function: Callable[..., Any]
    old: str
    new: str
    meets: int | str
    also: tuple[Callable[..., Any], str, str] | None = None


MUTATIONS = (
    Mutation(
        "the readable end goes without one follower",
        Term.advance,
        "end = min(ends)",
        "end = sorted(ends)[min(1, len(ends) - 1)]",
        meets=36,
    ),
    Mutation(
        "the readable end is the leader's own",
        Term.advance,
        "for each in counted if each != self.me",
        "for each in ()",
        meets=5,
    ),
    Mutation(
        "the readable end goes without the leader's disk",
        Term.advance,
        "ends = [log.flushed_end_offset]",
        "ends = [log.appended_end_offset]",
        meets=73,
    ),
    Mutation(
        "who is being removed counts no more",
        InSync.counted,
        "self._state.in_sync | proposed.in_sync",
        "proposed.in_sync",
        meets=5,
    ),
    Mutation(
        "who is being added counts when the write has succeeded",
        InSync.counted,
        "self._state.in_sync | proposed.in_sync",
        "self._state.in_sync",
        meets=143,
    ),
    Mutation(
        "a write that was not answered was not done",
        InSync.not_answered,
        "self._is_in_doubt = self._proposed is not None",
        "self._proposed = None",
        meets=143,
    ),
    Mutation(
        "a write that was not answered was done",
        InSync.not_answered,
        "self._is_in_doubt = self._proposed is not None",
        "self.succeeded()",
        meets=1,
    ),
    Mutation(
        "a read without a sync ends a doubt",
        InSync.wanted_read,
        "after_sync=True",
        "after_sync=False",
        meets=649,
    ),
    Mutation(
        "the lead is taken on any version of the state",
        state.choose_role,
        "state.led_by(me), version",
        "state.led_by(me), -1",
        meets=2479,
    ),
    Mutation(
        "nothing is cut",
        FollowedLog._compare,
        "log.cut(cut)",
        "pass",
        meets=5,
    ),
    Mutation(
        "all is cut that is not known to be readable",
        FollowedLog._compare,
        "cut = comparison.cut",
        "cut = self.readable",
        meets="one in sync starts again and leads",
    ),
    Mutation(
        "one message too much is cut",
        FollowedLog._compare,
        "log.cut(cut)",
        "log.cut(log.message_start(cut - 1))",
        meets=3011,
    ),
    Mutation(
        "a cut in the midst of a message",
        Comparison.answered,
        "self._log.message_start(differing.start)",
        "differing.start",
        meets=83,
    ),
    Mutation(
        "only the last segment is compared",
        FollowedLog._compare_from,
        "Comparison(self._log, offset,",
        "Comparison(self._log, max(offset, self._log.segment_offsets[-1]),",
        meets=11,
    ),
    Mutation(
        "an empty segment at the end stays",
        FollowedLog._compare,
        "log.cut(cut)",
        "log.cut(cut) if cut < log.appended_end_offset else None",
        meets=151,
    ),
    Mutation(
        "what lies before the leader's start stays",
        FollowedLog._compare,
        "max(log.start_offset, given.start)",
        "log.start_offset",
        meets=515,
    ),
    Mutation(
        "a log that shares nothing begins where it began",
        FollowedLog._compare,
        "log.cut(log.start_offset)\n        log.begin_at(given.start)",
        "log.cut(cut)",
        meets=515,
    ),
    Mutation(
        "what was received is known as readable",
        FollowedLog.take,
        "min(given.readable, log.flushed_end_offset)",
        "min(given.readable, log.appended_end_offset)",
        meets="power fails after a cut",
    ),
    Mutation(
        "a follower tells what it has received",
        FollowedLog.ask,
        "log.flushed_end_offset",
        "log.appended_end_offset",
        meets=319,
    ),
    Mutation(
        "a follower tells what it has before it compared that",
        FollowedLog.ask,
        "Ask(log.appended_end_offset, None,",
        "Ask(log.appended_end_offset, log.flushed_end_offset,",
        meets=86,
        also=(Term._give, "if ask.flushed is None:", "if ask.compare:"),
    ),
    Mutation(
        "who is not in sync takes the lead",
        state.choose_role,
        "if me not in state.in_sync:",
        "if False:",
        meets=15,
    ),
    Mutation(
        "a name is enough to lead",
        state.choose_role,
        "if me not in state.in_sync:",
        "if me.name not in {each.name for each in state.in_sync}:",
        meets=120,
    ),
    Mutation(
        "a new leader resumes the epoch",
        ReplicaState.led_by,
        "self.epoch + 1",
        "self.epoch + (self.leader != replica)",
        meets="a leader without power comes back",
    ),
    Mutation(
        "requests of another epoch are served",
        Term._check,
        "fetch.epoch != self.epoch or",
        "",
        meets="a request is late",
    ),
    Mutation(
        "it registers before all that it had can be read",
        Term.registration,
        "if any(self.readable(where) < end for where, end in self._at_takeover.items()):",
        "if False:",
        meets=7,
    ),
    Mutation(
        "what is not readable yet is out of range",
        serving.answer_to_fetch,
        "start <= offset <= appended",
        "start <= offset <= readable",
        meets=7,
        also=(
            Term.registration,
            "if any(self.readable(where) < end for where, end in self._at_takeover.items()):",
            "if False:",
        ),
    ),
    Mutation(
        "out of range is said without a lease",
        serving.answer_to_fetch,
        "if not is_leading:",
        "if not is_leading and start <= offset <= appended:",
        meets="an old leader is asked for what it never had",
    ),
    Mutation(
        "a barrier is answered when it arrives",
        ClientAppends.is_due,
        "readable(where) >= end",
        "True",
        meets=5,
    ),
    Mutation(
        "a barrier knows one partition",
        ClientAppends.barrier,
        "dict(self._ends)",
        "dict(list(self._ends.items())[:1])",
        meets=15,
    ),
    Mutation(
        "a barrier forgets what came after it",
        ClientAppends.forget,
        "if self._ends.get(where) == end:",
        "if True:",
        meets=6,
    ),
    Mutation(
        "a connection lives through the loss of the lead",
        ClientAppends._check,
        "if self._has_ended():",
        "if False:",
        meets="a connection sees two changes of leader",
    ),
    Mutation(
        "in sync is who has what is readable",
        Term._due_of_new_ones,
        "max(end, self._at_takeover.get(where, 0))",
        "end",
        meets="one comes back after a takeover",
    ),
    Mutation(
        "in sync is who has the leader's end at takeover",
        Term._due_of_new_ones,
        "max(end, self._at_takeover.get(where, 0))",
        "self._at_takeover.get(where, 0)",
        meets="one comes back with too little",
    ),
    Mutation(
        "in sync is who has one partition",
        _Follower.has,
        "return all(",
        "return not ends or any(",
        meets="one comes back without a partition",
    ),
    Mutation(
        "in sync is who has asked",
        Term._belongs,
        "return replica in self._in_sync.certain or follower.has(self._due_of_new_ones())",
        "return True",
        meets=77,
    ),
    Mutation(
        "all closed segments are deleted",
        retention.most_deletable,
        "if start < readable",
        "if True",
        meets=7,
    ),
    Mutation(
        "a segment is deleted when it is readable",
        retention.most_deletable,
        "start < readable",
        "start <= readable",
        meets="all but an empty segment is deleted",
    ),
    Mutation(
        "what an operator gave up is protected for ever",
        Known.entering,
        "self.epoch < state.loss_epoch",
        "False",
        meets="an operator accepts a loss",
    ),
    Mutation(
        "digests of what is not there are equal",
        comparison.count_equal,
        "or not each.digest or log.digest(each.start, each.end) != each.digest",
        "or log.digest(each.start, each.end) not in {None, each.digest}",
        meets=5,
    ),
)
