"""The order of each topic's partitions: which list counts, and a copy of all lists and floors in a file."""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING

from kafka2011.disk import SYSTEM_DISK
from zk.errors import MalformedNode
from zk.gateways import PartitionList
from zk.number_floors import NumberFloors

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
    """Keeps the lists of all topics and the floors of their numbers, in case ZooKeeper is restored to an older copy.

    Older gateways read the lists, and leave the floors out.
    """

    def __init__(self, path: Path, disk: Disk = SYSTEM_DISK) -> None:
        self.path = path
        self._disk = disk
        self._text = ""

    def load(self) -> tuple[dict[str, PartitionList], dict[str, NumberFloors]]:
        """Return what was kept; nothing where the file is missing or cannot be read, which is logged."""
        lists: dict[str, PartitionList] = {}
        floors: dict[str, NumberFloors] = {}
        try:
            text = self.path.read_text()
            for topic, entry in json.loads(text).items():
                lists[topic] = PartitionList.from_node(str(self.path), topic, entry.encode(), -1)
                kept = json.loads(entry).get("floors")
                if kept is not None:
                    floors[topic] = NumberFloors.of_document(kept)
        except FileNotFoundError:
            return {}, {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MalformedNode) as error:
            logger.error("%s cannot be read: the order of partitions is taken from ZooKeeper: %s", self.path, error)  # noqa: TRY400
            return {}, {}
        self._text = text
        return lists, floors

    def store(self, lists: Mapping[str, PartitionList], floors: Mapping[str, NumberFloors]) -> None:
        """Keep these lists and floors from now on. Raises OSError."""
        text = json.dumps(
            {
                topic: json.dumps(
                    {**known.document, "floors": floors[topic].document} if topic in floors else known.document
                )
                for topic, known in lists.items()
            }
        )
        if text == self._text:
            return
        with self._disk.replacing(self.path) as out:
            out.write(text.encode())
        self._text = text
