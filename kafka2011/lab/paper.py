"""Sentences of the paper that the stages show with a failure (Kreps, Narkhede, Rao: Kafka, NetDB 2011)."""

from __future__ import annotations

from typing import NamedTuple


class Sentence(NamedTuple):
    """A sentence, and the section that has it; both empty for none."""

    section: str
    text: str


NONE = Sentence("", "")

SET = Sentence(
    "3.1",
    "The producer can submit a set of messages in a single send request.",
)
APPEND = Sentence(
    "3.1",
    "Every time a producer publishes a message to a partition, the broker simply appends the message to the last "
    "segment file.",
)
OFFSET = Sentence(
    "3.1",
    "Each message is addressed by its logical offset in the log.",
)
NEXT_ID = Sentence(
    "3.1",
    "To compute the id of the next message, we have to add the length of the current message to its id.",
)
PULL = Sentence(
    "3.1",
    "Each pull request contains the offset of the message from which the consumption begins and an acceptable number "
    "of bytes to fetch.",
)
SEGMENTS = Sentence(
    "3.1",
    "Physically, a log is implemented as a set of segment files of approximately the same size (e.g., 1GB).",
)
SORTED_LIST = Sentence(
    "3.1",
    "Each broker keeps in memory a sorted list of offsets, including the offset of the first message in every segment "
    "file.",
)
FLUSH = Sentence(
    "3.1",
    "For better performance, we flush the segment files to disk only after a configurable number of messages have been "
    "published or a certain amount of time has elapsed.",
)
EXPOSED = Sentence("3.1", "A message is only exposed to the consumers after it is flushed.")
RETENTION = Sentence(
    "3.1",
    "A message is automatically deleted if it has been retained in the broker longer than a certain period, typically "
    "7 days.",
)
CRC = Sentence("3.3", "To avoid log corruption, Kafka stores a CRC for each message in the log.")
RECOVERY = Sentence(
    "3.3",
    "If there is any I/O error on the broker, Kafka runs a recovery process to remove those messages with inconsistent "
    "CRCs.",
)
NETWORK_CRC = Sentence(
    "3.3",
    "Having the CRC at the message level also allows us to check network errors after a message is produced or "
    "consumed.",
)
NO_ACKNOWLEDGEMENT = Sentence(
    "5",
    "The Kafka producer currently doesn't wait for acknowledgements from the broker.",
)
UNIT = Sentence(
    "3.2",
    "At any given time, all messages from one partition are consumed only by a single consumer within each consumer "
    "group.",
)
ALGORITHM = Sentence(
    "3.2, Algorithm 1",
    "sort P_T and C_T; let j be the index position of C_i in C_T and let N = |P_T|/|C_T|; assign partitions from j*N "
    "to (j+1)*N - 1 in P_T to consumer C_i.",
)
REGISTER = Sentence(
    "3.2",
    "When each broker or consumer starts up, it stores its information in a broker or consumer registry in Zookeeper.",
)
EPHEMERAL = Sentence(
    "3.2",
    "The failure of a consumer causes it to lose its entry in the consumer registry and all partitions that it owns in "
    "the ownership registry.",
)
OWNERSHIP = Sentence(
    "3.2",
    "The ownership registry has one path for every subscribed partition and the path value is the id of the consumer "
    "currently consuming from this partition.",
)
RELEASE = Sentence(
    "3.2",
    "The first consumer simply releases all the partitions that it currently owns, waits a bit and retries the "
    "rebalance process.",
)
OFFSET_REGISTRY = Sentence(
    "3.2",
    "As messages get pulled from a partition, the consumer periodically updates the latest consumed offset in the "
    "offset registry.",
)
AT_LEAST_ONCE = Sentence("3.3", "In general, Kafka only guarantees at-least-once delivery.")
ORDER = Sentence("3.3", "Kafka guarantees that messages from a single partition are delivered to a consumer in order.")
UNAVAILABLE = Sentence(
    "3.3",
    "If a broker goes down, any message stored on it not yet consumed becomes unavailable.",
)
REPLICATION = Sentence(
    "6",
    "First, we plan to add built-in replication of messages across multiple brokers to allow durability and data "
    "availability guarantees even in the case of unrecoverable machine failures.",
)
