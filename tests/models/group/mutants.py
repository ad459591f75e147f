"""Defects that shipped code could have, each one change: the model must notice every one of them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.consumer.division import Division
from kafka2011.consumer.known import KnownTexts
from kafka2011.consumer.offset_committer import Left, OffsetCommitter
from kafka2011.consumer.rebalancer import Rebalancer
from kafka2011.consumer.stream import MessageStream
from kafka2011.consumer.zk_group import ZkGroupSession
from tests.support.mutation import mutated
from zk import ephemeral
from zk.offsets import OffsetRegistry
from zk.sessions import SessionLease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Change = tuple["Callable[..., Any]", str, str]


class Mutant(NamedTuple):
    """A defect, and the scenario in which it shows."""

    scenario: str
    changes: list[Change]


_GIVE_UP = """\
    self._give_up([o for w, o in self.owned.items() if w not in mine or wanted.get(w) != o.feed.stream_id])
    self._commit_given_up()
    self._unclaim(session, [where for where in self._claimed if where not in self.owned and where not in wanted])
"""

MUTANTS: dict[str, Mutant] = {
    "commits without a fence": Mutant(
        "an owner node is taken away during a commit",
        [
            (
                OffsetRegistry.commit_many,
                "Write(path, _text(commit.offset), commit.version)",
                "Write(path, _text(commit.offset), -1)",
            )
        ],
    ),
    "no lease": Mutant("a process stands still", [(MessageStream._look, "return now_s < until_s", "return True")]),
    "a lease from the last answer": Mutant(
        "an answer comes late", [(SessionLease.renew, "proven_s + timeout_s", "answered_s + timeout_s")]
    ),
    "a lease from when a question was answered": Mutant(
        "an answer comes late, and is proven",
        [
            (
                SessionLease._proven_s,
                "[asked_s for asked_s, answered_s in self._answered",
                "[answered_s for asked_s, answered_s in self._answered",
            )
        ],
    ),
    "a lease that no later question proves": Mutant(
        "a follower is cut off right after an answer",
        [(SessionLease.renew, "self._proven_s(asked_s - timeout_s * _APART)", "asked_s")],
    ),
    "release before commit": Mutant(
        "answers are lost",
        [
            (
                Rebalancer.try_once,
                _GIVE_UP,
                """\
    self._give_up([o for w, o in self.owned.items() if w not in mine or wanted.get(w) != o.feed.stream_id])
    self._unclaim(session, [where for where in self._claimed if where not in self.owned and where not in wanted])
    self._commit_given_up()
""",
            )
        ],
    ),
    "the offset is read before the claim": Mutant(
        "a member claims while another finds its start",
        [
            (
                ZkGroupSession.claim,
                "return self._owners.claim_many(self._group, streams)",
                "self.early = self.read_offsets(streams)\n    return self._owners.claim_many(self._group, streams)",
            ),
            (
                ZkGroupSession.read_offsets,
                "return self._offsets.read_many(self._group, partitions)",
                """\
early = self.__dict__.pop("early", None)
    return self._offsets.read_many(self._group, partitions) if early is None else early""",
            ),
        ],
    ),
    "a watch is set after the read": Mutant(
        "a member joins while another looks who has joined",
        [
            (
                KnownTexts._read_new,
                "names = self._names(watch)",
                "names = self._names(None)\n    self._names(watch)",
            )
        ],
    ),
    "claims by topic": Mutant(
        "two join at once",
        [
            (
                Rebalancer.try_once,
                _GIVE_UP,
                """\
    if any(w not in mine or wanted.get(w) != o.feed.stream_id for w, o in self.owned.items()):
        self._give_up(list(self.owned.values()))
    self._commit_given_up()
    self._unclaim(session, [where for where in self._claimed if where not in self.owned])
""",
            )
        ],
    ),
    "an ended session is not abandoned": Mutant("a session ends", [(Rebalancer._enter, "self._abandon()", "pass")]),
    "what was left is never doubted": Mutant(
        "a session ends",
        [
            (
                Left.is_still,
                "return (found.version, found.offset) in known",
                "return True",
            )
        ],
    ),
    "others' owner nodes are released": Mutant(
        "answers to a claim were lost", [(ephemeral.release_many, "if node.owner == bound.session_id", "if node.owner")]
    ),
    "an owner asks whose it is before it reads": Mutant(
        "an owner node is taken away after 1 answers about the start",
        [
            (
                OffsetCommitter._write_as_owner,
                """\
        read = owned.session.read_offsets([owned.where]).get(owned.where)
        found = read if isinstance(read, CommittedOffset) else None
        # Asked after the read: anyone who claims the partition after this answer writes, which changes the version.
        if not owned.session.is_mine(owned.where):
            return False
""",
                """\
        if not owned.session.is_mine(owned.where):
            return False
        read = owned.session.read_offsets([owned.where]).get(owned.where)
        found = read if isinstance(read, CommittedOffset) else None
""",
            )
        ],
    ),
    "a first offset is written over another": Mutant(
        "an owner node is taken away after 2 answers about the start",
        [
            (
                OffsetRegistry.create,
                "self._nodes.create_with_parents(path, _text(offset))",
                "self._nodes.upsert(path, _text(offset))",
            )
        ],
    ),
    "new owners do not fence": Mutant(
        "a member joins one of 0.7",
        [
            (
                OffsetCommitter.take,
                "outcomes = session.commit_offsets(OffsetCommit(w, c.offset, c.version) for w, c in offsets.items())",
                "outcomes = {w: c.version for w, c in offsets.items()}",
            )
        ],
    ),
    "one that says nothing is not heard": Mutant(
        "a member that divides as 0.7 does joins two that do not",
        [
            (
                Division._agree,
                "others = [member for member in members if rules.get(member) != self._rule]",
                "others = []",
            )
        ],
    ),
    "who comes or goes seems to say nothing": Mutant(
        "one that divides fairly ends while another looks who does",
        [(Division._agree, "self._members(session).keys() != members.keys() or any(", "False and any(")],
    ),
    "who falls silent releases before it commits": Mutant(
        "an application falls silent, and comes back",
        [
            (
                Rebalancer._step_out,
                "    self._commit_given_up()\n    self._unclaim(session, list(self._claimed))\n",
                "    self._unclaim(session, list(self._claimed))\n    self._commit_given_up()\n",
            )
        ],
    ),
    "who falls silent stays a member": Mutant(
        "an application falls silent, and comes back",
        [(Rebalancer._step_out, "session.deregister(self._consumer_id)", "pass")],
    ),
    "an unanswered registration is forgotten": Mutant(
        "an application comes back unheard, and falls silent again",
        [
            (
                Rebalancer._enter,
                """\
        self._is_out = False  # noted first: an unanswered registration may have succeeded
        self._division.register(session)
""",
                """\
        self._division.register(session)
        self._is_out = False
""",
            )
        ],
    ),
    "who comes back does not register": Mutant(
        "an application falls silent, and comes back",
        [
            (Rebalancer._enter, "if registers and not self._is_in", "if registers and self.session is None"),
            (Division._members, "if self._consumer_id not in members", "if False"),
        ],
    ),
    "a failed last commit is forgotten": Mutant(
        "a connection is lost",
        [(OffsetCommitter.commit, "owned.is_closed or not isinstance(errors.get(owned), ZkUnavailable)", "True")],
    ),
}


@contextmanager
def mutant(name: str) -> Iterator[None]:
    """Run shipped code with one of the defects."""
    with ExitStack() as stack:
        for function, old, new in MUTANTS[name].changes:
            stack.enter_context(mutated(function, old, new))
        yield
