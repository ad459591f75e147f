"""Which names a topic may have: they become directories and znodes, so they are plain."""

from __future__ import annotations

import re

from kafka2011.errors import KafkaError
from zk.cluster import TopicPartition

MAX_DIRECTORY_NAME_BYTES = 255
DEFAULT_MAX_TOPIC_NAME_LENGTH = 255

_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_PARTITION = re.compile(r"[0-9]{1,10}")  # as many digits as an int32 may have


class InvalidTopicError(KafkaError):
    """Means that a topic's name is empty, too long, '.' or '..', or has not only letters, digits and '._-'."""


def validate_topic(topic: str, partition: int = 0, max_topic_name_length: int = DEFAULT_MAX_TOPIC_NAME_LENGTH) -> None:
    """Raise InvalidTopicError unless the topic may be used, TypeError unless it is text."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic is text, not {type(topic).__name__}")
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise InvalidTopicError(
            f"topic {topic[:300]!r} is not a name: use letters, digits, '.', '_' and '-', but not '.' or '..'"
        )
    if len(topic) > max_topic_name_length or len(log_directory_name(topic, partition)) > MAX_DIRECTORY_NAME_BYTES:
        raise InvalidTopicError(
            f"topic {topic[:300]!r} has {len(topic)} characters: at most {max_topic_name_length} are allowed, and"
            f" at most {MAX_DIRECTORY_NAME_BYTES} for the directory of a partition"
        )


def log_directory_name(topic: str, partition: int) -> str:
    """Return the name of the directory that holds one partition's log."""
    return f"{topic}-{partition}"


def partition_text(topic: str, broker_id: int | None, partition: int) -> str:
    """Return a partition's name for errors: with its broker or, where that is not known, as its log is called."""
    if broker_id is None:
        return log_directory_name(topic, partition)
    return str(TopicPartition(topic, broker_id, partition))


def parse_log_directory_name(name: str) -> tuple[str, int] | None:
    """Return (topic, partition) for a log directory's name, or None when it is not one."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not _PARTITION.fullmatch(number):
        return None
    return topic, int(number)
