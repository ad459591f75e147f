"""What may be changed from the page, where that is allowed: a group's offsets, as `kafka2011 groups reset` moves them.

In two steps: first what would be written is shown, then just that is written, unless the offsets have changed since.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafka2011.admin.groups import Groups
from kafka2011.errors import KafkaError
from zk.cluster import TopicPartition
from zk.errors import MalformedNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk.client import ZkClient

logger = logging.getLogger(__name__)


class OffsetChanges:
    """Moves a group's offsets. `who` is what the log says of who asks for it.

    Every method raises KafkaError, GroupInUse among them, and ValueError for a bad question.
    """

    def __init__(self, client: ZkClient) -> None:
        self._groups = Groups(client)

    def preview(self, asked: Mapping[str, Any], who: str) -> dict[str, Any]:  # noqa: ARG002 (nothing is changed)
        """Return where a group's offsets of a topic would go, and write nothing.

        Each move has `partition`, `before` and `after`.

        `to` is `earliest`, `latest`, `@` and a time in ms, or an offset, which needs a `partition`.
        """
        group, topic, to = _text(asked, "group"), _text(asked, "topic"), _text(asked, "to")
        name = _text(asked, "partition", "")
        chosen = [_partition(topic, name)] if name else []
        is_offset = to.isascii() and to.isdigit()
        if is_offset and not chosen:
            raise ValueError("an offset belongs to one partition: choose it")
        self._check_known(group)
        before = self._groups.committed(group, topic)
        moved = self._groups.reset(group, topic, int(to) if is_offset else to, chosen, dry_run=True)
        return {
            "moves": [
                {"partition": where.znode_name, "before": before.get(where), "after": offset}
                for where, offset in moved.items()
            ]
        }

    def move(self, asked: Mapping[str, Any], who: str) -> dict[str, Any]:
        """Write the offsets that were shown, if those before are still what they were; say how many.

        `moves` is what `preview` has returned.
        """
        group, topic = _text(asked, "group"), _text(asked, "topic")
        moves = _moves(topic, asked.get("moves"))
        self._check_known(group)
        now = self._groups.committed(group, topic)
        for where, (before, _) in moves.items():
            if now.get(where) != before:
                raise KafkaError(
                    f"{where} was at {before} when that was shown, and is at {now.get(where)}: check again"
                )
        said = ", ".join(f"{where.znode_name} from {before} to {after}" for where, (before, after) in moves.items())
        logger.info("%s moves group %s in topic %s: %s", who, group, topic, said)
        try:
            self._groups.import_offsets(
                group, {topic: {where.znode_name: after for where, (_, after) in moves.items()}}, check=True
            )
        except KafkaError as error:
            logger.warning(
                "the offsets of group %s in topic %s were not moved, or only some of them: %s", group, topic, error
            )
            raise
        return {"moved": len(moves)}

    def _check_known(self, group: str) -> None:
        if group not in self._groups.names():
            raise KafkaError(f"there is no group {group}")


def _text(asked: Mapping[str, Any], name: str, default: str | None = None) -> str:
    text = asked.get(name, default)
    if not isinstance(text, str) or (default is None and not text):
        raise ValueError(f"{name} must be a text")
    return text


def _partition(topic: str, name: object) -> TopicPartition:
    try:
        return TopicPartition.from_znode_name(topic, str(name))
    except MalformedNode as error:
        raise ValueError(f"{name} is not a partition: write it broker-number, as in 0-1") from error


def _moves(topic: str, asked: object) -> dict[TopicPartition, tuple[int | None, int]]:
    """Read `partition`, `before` and `after` of each move. Raises ValueError."""
    if not isinstance(asked, list) or not asked:
        raise ValueError("moves must be a list of objects with partition, before and after")
    moves: dict[TopicPartition, tuple[int | None, int]] = {}
    for move in asked:
        match move:
            case {"partition": str(name), "before": int() | None as before, "after": int(after)} if (
                type(after) is int and after >= 0
            ):
                moves[_partition(topic, name)] = (before, after)
            case _:
                raise ValueError(f"{move!r} is not an object with partition, before and after")
    return moves
