"""What a group has committed, as gateways keep it: an offset as 0.7 has it, and a note of what 0.7 cannot say.

0.7's offset is the position of a message in the log. A wrapper is one message there, and holds many for today's
clients: the note says how many of them are done, and keeps the text that a client has committed with its offset. It
also keeps a number that a client has committed and that has no place in the log.

A note belongs to one write of the offset. Whoever writes the offset again, to the same position or another one, makes
it void: members and tools of 0.7 know nothing of notes.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, NamedTuple

from zk import paths
from zk.cluster import TopicPartition, text_from
from zk.errors import MalformedNode, NodeExists, NoNode, VersionConflict, ZkError, raise_first
from zk.malformed import MalformedNodes
from zk.nodes import ANY_VERSION, Nodes, Write
from zk.offsets import OffsetCommit, OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zk.client import ZkClient
    from zk.nodes import Node
    from zk.offsets import CommittedOffset

logger = logging.getLogger(__name__)

ABSENT = -1
"""The version of an offset that must not be there yet."""
_TRIES = 5
"""How often a znode may come and go while it is written before that is an error."""


class GroupCommit(NamedTuple):
    """Where a group goes on in a partition: at a position of the log, after some messages of the wrapper there.

    `version` is that of the offset's znode, as it was read, or as it must be for a write; with None, a write is made
    whatever is there. `at_ms` is when it was written. `number` is what a client has committed where that has no place
    in the log: the position is then the nearest place.
    """

    position: int
    within: int = 0
    metadata: str = ""
    version: int | None = None
    at_ms: int = 0
    number: int | None = None

    @property
    def needs_note(self) -> bool:
        """Whether 0.7's offset does not say all."""
        return bool(self.within or self.metadata) or self.number is not None


class CommitNotes:
    """Reads and writes /consumers/{group}/offsets and /gateway/commits together.

    With `session_id`, every call goes out in that session or raises NotConnected. Nothing is retried. Every method
    raises ZkUnavailable when ZooKeeper does not answer. Notes that cannot be read count as absent.
    """

    def __init__(self, client: ZkClient, session_id: int | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self._offsets = OffsetRegistry(client, session_id)
        self._noted: dict[tuple[str, TopicPartition], int | None] = {}  # which version was noted last
        self.malformed = MalformedNodes(logger)

    def partitions(self, group: str) -> list[TopicPartition]:
        """List the partitions of which a group has offsets, sorted. Names that cannot be read are left out."""
        topics = {paths.offsets(group, topic): topic for topic in self._offsets.topics(group)}
        found = []
        for path, names in self._nodes.children_of_many(topics).items():
            for name in names:
                try:
                    found.append(TopicPartition.from_znode_name(topics[path], name, path))
                except MalformedNode as error:
                    self.malformed.skip(error)
        return sorted(found)

    def read_many(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, GroupCommit | MalformedNode]:
        """Read commits, pipelined; partitions without one are left out."""
        # Notes first: one of before its offset was written again is void, and the offset counts, which is the newer.
        notes = self._read_notes(group, partitions)
        commits: dict[TopicPartition, GroupCommit | MalformedNode] = {}
        for where, offset in self._offsets.read_many(group, partitions).items():
            if isinstance(offset, MalformedNode):
                commits[where] = offset
                continue
            commits[where] = self._noted_commit(notes.get(where), offset, offset.version)
        return commits

    def write_many(
        self, group: str, commits: Mapping[TopicPartition, GroupCommit]
    ) -> dict[TopicPartition, int | ZkError]:
        """Write commits, pipelined: the new version of each offset, or the error that kept it from being written.

        VersionConflict where the offset was not at the version of its commit. After ConnectionLost nobody knows. The
        offsets are written first: if only they are, messages of a wrapper come again, and none is skipped.
        """
        outcomes = self._write_offsets(group, commits)
        written = {
            where: commits[where]._replace(version=outcome)
            for where, outcome in outcomes.items()
            if not isinstance(outcome, ZkError) and commits[where].needs_note
        }
        return outcomes | self._write_notes(group, written)

    def note_many(self, group: str, commits: Mapping[TopicPartition, GroupCommit]) -> dict[TopicPartition, ZkError]:
        """Note what 0.7 cannot say of offsets that are at these versions; return what kept notes from it.

        An offset may be at the same version as before, where a group has moved within a wrapper.
        """
        due = {
            where: commit
            for where, commit in commits.items()
            if commit.needs_note or self._noted.get((group, where)) == commit.version
        }
        errors = self._write_notes(group, due)
        self._noted.update({(group, where): commit.version for where, commit in due.items()})
        return errors

    def _write_notes(self, group: str, commits: Mapping[TopicPartition, GroupCommit]) -> dict[TopicPartition, ZkError]:
        where_at = {paths.gateway_commit(group, where): where for where in commits}
        outcomes = _upsert_many(self._nodes, {path: _note_of(commits[where]) for path, where in where_at.items()})
        return {where_at[path]: outcome for path, outcome in outcomes.items() if isinstance(outcome, ZkError)}

    def renew_many(self, group: str, partitions: Collection[TopicPartition]) -> None:
        """Let notes hold on whose offsets were written once more as they were: so a new owner fences off former ones.

        If that fails, messages of a wrapper come again, and none is skipped.
        """
        notes = self._read_notes(group, partitions)
        renewed: dict[TopicPartition, GroupCommit] = {}
        for where, offset in self._offsets.read_many(group, notes).items():
            if not isinstance(offset, MalformedNode):
                renewed[where] = self._noted_commit(notes[where], offset, offset.version - 1)
        raise_first(self.note_many(group, renewed).values())

    def delete(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Remove commits, as if the group had never consumed these partitions."""
        self._offsets.forget(group, list(partitions))

    def _read_notes(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Node]:
        by_path = {paths.gateway_commit(group, where): where for where in partitions}
        topics = {paths.gateway_topic_commits(group, where.topic) for where in partitions}
        there = {
            paths.child(path, name) for path, names in self._nodes.children_of_many(topics).items() for name in names
        }
        return {by_path[path]: node for path, node in self._nodes.get_many(by_path.keys() & there).items()}

    def _noted_commit(self, note: Node | None, offset: CommittedOffset, of_version: int) -> GroupCommit:
        """Return an offset with what its note says of one of its versions: nothing if it is of another write."""
        commit = GroupCommit(offset.offset, version=offset.version, at_ms=offset.at_ms)
        if note is None:
            return commit
        try:
            text = text_from(note.path, note.data)
            try:
                document = json.loads(text)
                start, within, version = (int(document[name]) for name in ("start", "within", "version"))
                metadata = str(document["metadata"])
                number = document.get("number")
                number = None if number is None else int(number)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise MalformedNode(note.path, text, "not the note of a commit") from error
        except MalformedNode as error:
            self.malformed.skip(error)
            return commit
        # The version alone is not enough: an offset that was deleted and written again counts from 0 again.
        is_of_this_write = (start, version) == (offset.offset, of_version) and note.modified_zxid > offset.created_zxid
        return commit._replace(within=max(within, 0), metadata=metadata, number=number) if is_of_this_write else commit

    def _write_offsets(
        self, group: str, commits: Mapping[TopicPartition, GroupCommit]
    ) -> dict[TopicPartition, int | ZkError]:
        of_any_version = {where: commit for where, commit in commits.items() if commit.version is None}
        new = {where: commit.position for where, commit in commits.items() if commit.version == ABSENT}
        known = [
            OffsetCommit(where, commit.position, commit.version)
            for where, commit in commits.items()
            if commit.version is not None and commit.version != ABSENT
        ]
        outcomes = self._offsets.commit_many(group, known) | self._offsets.create_many(group, new)
        left = of_any_version
        for _ in range(_TRIES):
            # Without a version, a conflict is that there is no such znode, and then that there is one.
            outcomes |= self._offsets.commit_many(
                group, [OffsetCommit(where, commit.position, ANY_VERSION) for where, commit in left.items()]
            )
            left = _conflicting(left, outcomes)
            outcomes |= self._offsets.create_many(group, {where: commit.position for where, commit in left.items()})
            left = _conflicting(left, outcomes)
            if not left:
                break
        return outcomes


def _conflicting(
    commits: Mapping[TopicPartition, GroupCommit], outcomes: Mapping[TopicPartition, int | ZkError]
) -> dict[TopicPartition, GroupCommit]:
    return {where: commit for where, commit in commits.items() if isinstance(outcomes[where], VersionConflict)}


def _note_of(commit: GroupCommit) -> bytes:
    document: dict[str, object] = {
        "start": commit.position,
        "within": commit.within,
        "version": commit.version,
        "metadata": commit.metadata,
    }
    if commit.number is not None:
        document["number"] = commit.number
    return json.dumps(document).encode()


def _upsert_many(nodes: Nodes, data_by_path: Mapping[str, bytes]) -> dict[str, int | ZkError]:
    """Write persistent znodes, pipelined, creating them where they are missing."""
    outcomes: dict[str, int | ZkError] = {}
    left = dict(data_by_path)
    for _ in range(_TRIES):
        outcomes |= nodes.set_many(Write(path, data, ANY_VERSION) for path, data in left.items())
        left = {path: data for path, data in left.items() if isinstance(outcomes[path], NoNode)}
        created = nodes.create_many(left)
        outcomes |= {path: 0 if outcome is None else outcome for path, outcome in created.items()}
        left = {path: data for path, data in left.items() if isinstance(outcomes[path], NodeExists)}
        if not left:
            break
    return outcomes
