"""The order of each topic's partitions: which list counts, and a copy of all lists in a file."""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING

from kafka2011.disk import SYSTEM_DISK
from zk.errors import MalformedNode
from zk.gateways import PartitionList

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kafka2011.disk import Disk
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)


def wanted_list(
    topic: str, kept: PartitionList | None, stored: PartitionList | None, present: Iterable[TopicPartition]
) -> PartitionList:
    """Return the list that a topic should have, with the version of the stored one.

    `kept` is what this gateway has told clients, `stored` what ZooKeeper has, which may be of before: then what clients
    know goes on. A topic with another id is another one, and so is one after its deletion. New partitions come last.
    """
    version = -1 if stored is None else stored.version
    if stored is not None and stored.is_deleted:
        if kept is not None and kept.topic_id == stored.topic_id:
            kept = None
        stored = None
    if stored is not None and (kept is None or kept.topic_id != stored.topic_id):
        kept = stored
    base = PartitionList(topic, uuid.uuid4(), ()) if kept is None else kept
    partitions = list(base.partitions)
    if stored is not None and stored.partitions[: len(partitions)] == base.partitions:
        partitions = list(stored.partitions)
    elif stored is not None and base.partitions[: len(stored.partitions)] != stored.partitions:
        logger.error("topic %s: ZooKeeper has its partitions in another order than clients know, which counts", topic)
    partitions += [where for where in (*(stored.partitions if stored else ()), *present) if where not in partitions]
    return base._replace(partitions=tuple(dict.fromkeys(partitions)), version=version)


class ListsFile:
    """Keeps the lists of all topics, for the case that ZooKeeper is restored to an older copy."""

    def __init__(self, path: Path, disk: Disk = SYSTEM_DISK) -> None:
        self.path = path
        self._disk = disk
        self._kept: Mapping[str, PartitionList] = {}

    def load(self) -> dict[str, PartitionList]:
        """Return the lists that were kept; none where the file is missing or cannot be read, which is logged."""
        try:
            document = json.loads(self.path.read_bytes())
            lists = {
                topic: PartitionList.from_node(str(self.path), topic, text.encode(), -1)
                for topic, text in document.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, RecursionError, MalformedNode) as error:
            logger.error("%s cannot be read: the order of partitions is taken from ZooKeeper: %s", self.path, error)  # noqa: TRY400
            return {}
        self._kept = dict(lists)
        return lists

    def store(self, lists: Mapping[str, PartitionList]) -> None:
        """Keep these lists from now on. Raises OSError."""
        if {topic: known.text for topic, known in lists.items()} == {t: known.text for t, known in self._kept.items()}:
            return
        text = json.dumps({topic: known.text for topic, known in lists.items()})
        with self._disk.replacing(self.path) as out:
            out.write(text.encode())
        self._kept = dict(lists)
