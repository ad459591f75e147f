"""Every znode path: those of Kafka 0.7, and some that it has not. No other module writes one.

    /brokers/ids/{id}                                   ephemeral   creator:host:port
    /brokers/listeners/{id}                             ephemeral   where it listens by TLS, if it does
    /brokers/clocks/{id}                                ephemeral   what its clock says, beside ZooKeeper's
    /brokers/topics/{topic}/{id}                        ephemeral   number of partitions
    /consumers/{group}/ids/{consumer}                   ephemeral   subscription
    /consumers/{group}/assignment/{consumer}            ephemeral   how it would divide, where that is not as in 0.7
    /consumers/{group}/owners/{topic}/{id}-{partition}  ephemeral   {consumer}-{stream number}
    /consumers/{group}/offsets/{topic}/{id}-{partition} persistent  next offset to consume
    /schemas/fingerprints/{fingerprint}                 persistent  the schema that events of this fingerprint have
    /schemas/topics/{topic}/{number}                    persistent  a schema of the topic's events, numbered from 1
    /schemas/compatibility/{topic}                      persistent  how far its next schema must go with these
    /schemas/retired/{topic}/{number}                   persistent  this schema of the topic is no longer used
    /audit/cluster                                      persistent  the id of the cluster in the audit's reports
    /audit/brokers/{id}                                 persistent  a broker that may hold reports
    /audit/clock                                        persistent  written to learn ZooKeeper's time
    /audit/tables/{topic}/{tier}                        persistent  which table reports a topic as a tier
    /requests/{id}/{topic}                              persistent  what a broker is to do with a topic
    /partition_counts/{topic}/{id}                      persistent  the exact number of partitions that a broker keeps
    /settings/{id}                                      ephemeral   the settings of a broker
    /replicas/{id}/state                                persistent  which replica of a broker id leads, who is in sync
    /replicas/{id}/leader                               ephemeral   the replica that leads
    /replicas/{id}/members/{name}                       ephemeral   where a replica listens, and its disk's id
    /gateway/cluster                                    persistent  the cluster's id, as gateways tell it to clients
    /gateway/nodes                                      persistent  addresses of gateways; their order is their number
    /gateway/ids/{number}                               ephemeral   a gateway that lives
    /gateway/claims/{id}                                ephemeral   the gateway that serves a broker's partitions
    /gateway/topics/{topic}                             persistent  the topic's id, and its partitions in order
    /gateway/anchors/{topic-id}/{id}-{partition}        persistent  numbers of messages at some positions of a log
    /gateway/commits/{group}/{topic}/{id}-{partition}   persistent  how much of the wrapper at an offset is consumed
    /gateway/groups/{group}                             ephemeral   the gateway that today's members of a group go to
    /gateway/members/{group}/{consumer}                 ephemeral   which of today's clients a member of a group is

The nodes between are persistent, hold null data, and stay.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from zk.errors import InvalidName

if TYPE_CHECKING:
    from zk.cluster import TopicPartition

BROKERS = "/brokers"
BROKER_IDS = "/brokers/ids"
BROKER_LISTENERS = "/brokers/listeners"
BROKER_CLOCKS = "/brokers/clocks"
BROKER_TOPICS = "/brokers/topics"
CONSUMERS = "/consumers"
SCHEMA_FINGERPRINTS = "/schemas/fingerprints"
SCHEMA_TOPICS = "/schemas/topics"
SCHEMA_COMPATIBILITY = "/schemas/compatibility"
SCHEMA_RETIRED = "/schemas/retired"
AUDIT_CLUSTER = "/audit/cluster"
AUDIT_BROKERS = "/audit/brokers"
AUDIT_CLOCK = "/audit/clock"
AUDIT_TABLES = "/audit/tables"
REQUESTS = "/requests"
PARTITION_COUNTS = "/partition_counts"
SETTINGS = "/settings"
REPLICAS = "/replicas"
GATEWAY_CLUSTER = "/gateway/cluster"
GATEWAY_IDS = "/gateway/ids"
GATEWAY_CLAIMS = "/gateway/claims"
GATEWAY_NODES = "/gateway/nodes"
GATEWAY_TOPICS = "/gateway/topics"
GATEWAY_ANCHORS = "/gateway/anchors"
GATEWAY_FLOORS = "/gateway/floors"
GATEWAY_FLOORS_BASE = "/gateway/floors-base"
GATEWAY_COMMITS = "/gateway/commits"
GATEWAY_GROUPS = "/gateway/groups"
GATEWAY_MEMBERS = "/gateway/members"

ROOTS = (BROKERS, CONSUMERS)
"""What a dump of all registries walks."""

MAX_NAME_LENGTH = 255
# What ZooKeeper refuses in a path (control characters, surrogates, the private use area), and the separator.
_REFUSED = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def component(name: str, what: str) -> str:
    """Return `name` if it can be one component of a path; `what` names its kind in the InvalidName raised if not."""
    if not name or name in {".", ".."} or len(name) > MAX_NAME_LENGTH or _REFUSED.search(name):
        raise InvalidName(
            f"{what} {name!r}: must be 1 to {MAX_NAME_LENGTH} characters,"
            " not '.' or '..', without '/' and control characters"
        )
    return name


def broker(broker_id: int) -> str:
    """Return where a broker registers itself."""
    return f"{BROKER_IDS}/{broker_id}"


def listeners(broker_id: int) -> str:
    """Return where a broker says where it listens by TLS."""
    return f"{BROKER_LISTENERS}/{broker_id}"


def broker_clock(broker_id: int) -> str:
    """Return where a broker says what its clock says."""
    return f"{BROKER_CLOCKS}/{broker_id}"


def topic(topic_name: str) -> str:
    """Return the parent of a topic's entries, one for each broker that stores it."""
    return f"{BROKER_TOPICS}/{component(topic_name, 'topic')}"


def topic_broker(topic_name: str, broker_id: int) -> str:
    """Return where a broker registers how many partitions of a topic it stores."""
    return f"{topic(topic_name)}/{broker_id}"


def group(group_name: str) -> str:
    """Return the root of all that belongs to one consumer group."""
    return f"{CONSUMERS}/{component(group_name, 'group')}"


def consumer_ids(group_name: str) -> str:
    """Return the parent of a group's members."""
    return f"{group(group_name)}/ids"


def consumer(group_name: str, consumer_id: str) -> str:
    """Return where a member of a group registers its subscription."""
    return f"{consumer_ids(group_name)}/{component(consumer_id, 'consumer')}"


def assignments(group_name: str) -> str:
    """Return the parent of what a group's members say of how to divide."""
    return f"{group(group_name)}/assignment"


def assignment(group_name: str, consumer_id: str) -> str:
    """Return where a member of a group says how it would divide."""
    return f"{assignments(group_name)}/{component(consumer_id, 'consumer')}"


def group_owners(group_name: str) -> str:
    """Return the parent of the topics in which a group owns partitions."""
    return f"{group(group_name)}/owners"


def owners(group_name: str, topic_name: str) -> str:
    """Return the parent of the owner nodes of one topic in one group."""
    return f"{group_owners(group_name)}/{component(topic_name, 'topic')}"


def owner(group_name: str, where: TopicPartition) -> str:
    """Return where the stream that owns a partition writes its id."""
    return f"{owners(group_name, where.topic)}/{_partition_name(where)}"


def group_offsets(group_name: str) -> str:
    """Return the parent of the topics for which a group committed offsets."""
    return f"{group(group_name)}/offsets"


def offsets(group_name: str, topic_name: str) -> str:
    """Return the parent of the offset nodes of one topic in one group."""
    return f"{group_offsets(group_name)}/{component(topic_name, 'topic')}"


def offset(group_name: str, where: TopicPartition) -> str:
    """Return where a group keeps the next offset to consume of a partition."""
    return f"{offsets(group_name, where.topic)}/{_partition_name(where)}"


def schema_fingerprint(fingerprint: str) -> str:
    """Return where the schema of a fingerprint is."""
    return f"{SCHEMA_FINGERPRINTS}/{component(fingerprint, 'fingerprint')}"


def schema_topic(topic_name: str) -> str:
    """Return the parent of a topic's numbered schemas."""
    return f"{SCHEMA_TOPICS}/{component(topic_name, 'topic')}"


def schema_compatibility(topic_name: str) -> str:
    """Return where it stands how far a topic's next schema must go with those before it."""
    return f"{SCHEMA_COMPATIBILITY}/{component(topic_name, 'topic')}"


def schema_number(topic_name: str, number: int) -> str:
    """Return where one of a topic's schemas is."""
    return f"{schema_topic(topic_name)}/{number}"


def retired_schemas(topic_name: str) -> str:
    """Return the parent of the marks of a topic's retired schemas."""
    return f"{SCHEMA_RETIRED}/{component(topic_name, 'topic')}"


def retired_schema(topic_name: str, number: int) -> str:
    """Return the path of the mark that one of a topic's schemas is retired."""
    return f"{retired_schemas(topic_name)}/{number}"


def audit_broker(broker_id: int) -> str:
    """Return where a broker is noted that may hold reports of the audit."""
    return f"{AUDIT_BROKERS}/{broker_id}"


def audit_table(topic: str, tier: str) -> str:
    """Return where it is noted which table reports a topic as a tier of the audit."""
    return f"{AUDIT_TABLES}/{topic}/{quote(tier, safe='')}"


def settings(broker_id: int) -> str:
    """Return where a broker publishes its settings."""
    return f"{SETTINGS}/{broker_id}"


def requests(broker_id: int) -> str:
    """Return the parent of what a broker is asked for; it is there if the broker takes requests."""
    return f"{REQUESTS}/{broker_id}"


def request(broker_id: int, topic_name: str) -> str:
    """Return where a broker is asked for something about a topic."""
    return f"{requests(broker_id)}/{component(topic_name, 'topic')}"


def partition_counts(topic_name: str) -> str:
    """Return the parent of the exact numbers of partitions that brokers keep of a topic."""
    return f"{PARTITION_COUNTS}/{component(topic_name, 'topic')}"


def partition_count(topic_name: str, broker_id: int) -> str:
    """Return where a broker notes the exact number of partitions that it keeps of a topic."""
    return f"{partition_counts(topic_name)}/{broker_id}"


def replica_state(broker_id: int) -> str:
    """Return where the replicas of a broker id agree on who leads, and who is in sync."""
    return f"{REPLICAS}/{broker_id}/state"


def replica_floor(broker_id: int) -> str:
    """Return where the replica that leads notes how much everybody in sync has."""
    return f"{REPLICAS}/{broker_id}/floor"


def replica_leader(broker_id: int) -> str:
    """Return where the replica that leads says so."""
    return f"{REPLICAS}/{broker_id}/leader"


def replica_members(broker_id: int) -> str:
    """Return the parent of the replicas that live."""
    return f"{REPLICAS}/{broker_id}/members"


def replica_member(broker_id: int, name: str) -> str:
    """Return where a replica says where it listens."""
    return f"{replica_members(broker_id)}/{component(name, 'replica')}"


def gateway_claim(broker_id: int) -> str:
    """Return where a gateway says that it serves a broker's partitions."""
    return f"{GATEWAY_CLAIMS}/{broker_id}"


def gateway_topic(topic_name: str) -> str:
    """Return where gateways keep a topic's id and the order of its partitions."""
    return f"{GATEWAY_TOPICS}/{component(topic_name, 'topic')}"


def gateway_anchors(topic_id: str) -> str:
    """Return the parent of the anchors of a topic's partitions."""
    return f"{GATEWAY_ANCHORS}/{component(topic_id, 'topic id')}"


def gateway_anchor(topic_id: str, where: TopicPartition) -> str:
    """Return where gateways keep the numbers that messages of a partition have."""
    return f"{gateway_anchors(topic_id)}/{_partition_name(where)}"


def gateway_floors(topic_name: str) -> str:
    """Return where gateways keep the numbers above which a topic goes on after its deletion."""
    return f"{GATEWAY_FLOORS}/{component(topic_name, 'topic')}"


def gateway_commits(group_name: str) -> str:
    """Return the parent of what gateways note of a group's offsets."""
    return f"{GATEWAY_COMMITS}/{component(group_name, 'group')}"


def gateway_topic_commits(group_name: str, topic_name: str) -> str:
    """Return the parent of what gateways note of a group's offsets of one topic."""
    return f"{gateway_commits(group_name)}/{component(topic_name, 'topic')}"


def gateway_commit(group_name: str, where: TopicPartition) -> str:
    """Return where gateways note more of an offset than 0.7 can."""
    return f"{gateway_topic_commits(group_name, where.topic)}/{_partition_name(where)}"


def gateway_id(number: int) -> str:
    """Return where a gateway says that it lives."""
    return f"{GATEWAY_IDS}/{number}"


def gateway_group(group_name: str) -> str:
    """Return where a gateway says that it is the one for today's members of a group."""
    return f"{GATEWAY_GROUPS}/{component(group_name, 'group')}"


def gateway_members(group_name: str) -> str:
    """Return the parent of what gateways say of a group's members."""
    return f"{GATEWAY_MEMBERS}/{component(group_name, 'group')}"


def gateway_member(group_name: str, consumer_id: str) -> str:
    """Return where a gateway says which of today's clients a member of a group is."""
    return f"{gateway_members(group_name)}/{component(consumer_id, 'consumer')}"


def _partition_name(where: TopicPartition) -> str:
    if min(where.broker_id, where.partition) < 0:
        raise InvalidName(f"partition {where}: neither number may be negative")
    return where.znode_name


def parent(path: str) -> str:
    """Return the path one level up, '/' for a top-level path."""
    return path.rpartition("/")[0] or "/"


def child(path: str, name: str) -> str:
    """Return the path of a child, as ZooKeeper names it in a listing."""
    return f"{path}{name}" if path == "/" else f"{path}/{name}"
