"""What can be wrong with a cluster: each check takes a checkup, and yields what it finds. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from kafka2011.admin.doctor.checkup import Finding
from zk import paths
from zk.number_floors import MOST_TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka2011.admin.doctor.checkup import Checkup
    from kafka2011.admin.replicas import BrokerReplicas
    from kafka2011.admin.snapshot.cluster_snapshot import ClusterSnapshot

CLOCK_LIMIT_MS = 5_000
"""More apart than this are two clocks that nobody keeps; less may be the way of a write to ZooKeeper."""
RETENTION_LIMIT_MS = 3_600_000
"""More apart than this are two clocks by which retention deletes nothing."""
SLOW_ANSWER_MS = 1_000
SLOW_REQUEST_S = 60.0
"""A broker that lives has done by then what it was asked for, unless it removes very large logs."""
_MANY_DELETED_TOPICS = MOST_TOPICS * 9 // 10
_CREATED = re.compile(r".*-(\d{13})(?:-[0-9a-f]{8})?")
_VERSION = re.compile(r"(\d+)\.(\d+)(\.\d+)?")
_LATENCY = "Latency min/avg/max"


def servers_that_do_not_serve(checkup: Checkup) -> Iterator[Finding]:
    """Find ZooKeeper servers that are away, slow, or too few to survive what the others would."""
    for server in checkup.servers:
        if server.error:
            yield Finding(
                f"ZooKeeper {server.address}",
                server.error,
                "restart it, or remove it from zk.connect; the cluster works while a majority runs",
            )
        version = _VERSION.match(server.fields.get("Zookeeper version", ""))
        if version is not None and (int(version[1]), int(version[2])) < (3, 4):
            yield Finding(
                f"ZooKeeper {server.address}",
                f"is of version {version[0]}, which has no transactions: replicas, gateways and the creation of topics"
                " with a number of partitions fail",
                "upgrade it to 3.5 or later, one server at a time; brokers and clients of Kafka 0.7 work with that",
            )
        most_ms = server.fields.get(_LATENCY, "").rpartition("/")[2]
        if most_ms and float(most_ms) > SLOW_ANSWER_MS:
            yield Finding(
                f"ZooKeeper {server.address}",
                f"an answer took {float(most_ms) / 1000:.1f} s; sessions end if an answer takes longer than their"
                f" timeout",
                "give its log its own disk, and avoid swapping",
            )
    if len(checkup.servers) > 1 and len(checkup.servers) % 2 == 0:
        yield Finding(
            "ZooKeeper",
            f"{len(checkup.servers)} servers survive the loss of no more servers than {len(checkup.servers) - 1} would",
            "run an odd number of them",
        )


def brokers_that_do_not_answer(checkup: Checkup) -> Iterator[Finding]:
    """Find brokers that are registered, so clients go to them, and do not answer."""
    for number, info in checkup.cluster.brokers.items():
        if info.error:
            yield Finding(
                f"broker {number}",
                f"is registered at {info.broker.address}, which does not answer: {info.error}",
                "if clients on its own machine reach it, check its hostname setting and the firewall; otherwise its"
                " log says what it waits for",
            )
    if not checkup.cluster.brokers:
        yield Finding("brokers", "none is registered", "start one, with zk.connect as given here, chroot included")


def addresses_that_clash(checkup: Checkup) -> Iterator[Finding]:
    """Find brokers whose address is another's, or means another machine on each machine."""
    brokers = checkup.cluster.brokers
    by_address = defaultdict(list)
    for number, info in brokers.items():
        by_address[info.broker.address].append(number)
    for address, numbers in by_address.items():
        if len(numbers) > 1:
            yield Finding(
                f"brokers {', '.join(map(str, numbers))}",
                f"are all registered at {address}: clients reach only one of them there",
                "give each its own port, or wait until the session of a stopped one has ended",
            )
    local = {number for number, info in brokers.items() if _is_loopback(info.broker.host)}
    if local and local != set(brokers):
        for number in sorted(local):
            yield Finding(
                f"broker {number}",
                f"is registered as {brokers[number].broker.host}, which means another machine on each machine",
                "set hostname to a name by which all clients reach it",
            )


def clocks_that_are_apart(checkup: Checkup) -> Iterator[Finding]:
    """Find machines whose clock differs from ZooKeeper's: both wrote down the moment of a registration."""
    cluster = checkup.cluster
    names = [(f"broker {number}", info.broker.creator, info.since_ms) for number, info in cluster.brokers.items()]
    for group in cluster.groups.values():
        names += [(f"member {name}", name, member.since_ms) for name, member in group.members.items()]
    for who, creator, at_ms in names:
        created = _CREATED.fullmatch(creator)
        ahead_ms = int(created[1]) - at_ms if created else 0
        # A process may register long after it started; its clock was ahead in any case if it started later.
        if ahead_ms > CLOCK_LIMIT_MS:
            yield Finding(
                who,
                f"its clock was {ahead_ms / 1000:.0f} s ahead of ZooKeeper's when it registered",
                "keep the clocks of all machines with NTP: retention, the audit and loads depend on them",
            )


def clocks_that_retention_doubts(checkup: Checkup) -> Iterator[Finding]:
    """Find brokers that delete nothing by age, since their clock or ZooKeeper's is wrong, or may have been."""
    for number, compared in checkup.clocks.items():
        text = compared.clock.obstacle
        if not text and abs(compared.ahead_ms) > RETENTION_LIMIT_MS:  # it has not noted why yet
            side = "ahead of" if compared.ahead_ms > 0 else "behind"
            text = f"the wall clock is {abs(compared.ahead_ms) / 1000:.0f} s {side} ZooKeeper's"
        if text:
            yield Finding(
                f"broker {number}",
                f"deletes no segments by age: {text}",
                "if two clocks differ, correct the wrong one and keep both with NTP; the wait after a stop ends"
                " without you. Meanwhile only log.retention.size limits the logs (docs/how-to/operations.md,"
                " Clocks)",
            )


def brokers_without_a_gateway(checkup: Checkup) -> Iterator[Finding]:
    """Find brokers that no gateway serves, where one serves others."""
    for number in sorted(checkup.cluster.brokers.keys() - checkup.claimed) if checkup.claimed else ():
        yield Finding(
            f"broker {number}",
            "no gateway serves it, and gateways serve other brokers: today's clients find its partitions without a"
            " leader",
            "a gateway claims a new broker within seconds; if none does, its log says why",
        )


def gateways_without_files(checkup: Checkup) -> Iterator[Finding]:
    """Find gateways that cannot read or write their directory."""
    for number, status in sorted(checkup.gateways.items()):
        if status.directory:
            yield Finding(
                f"gateway {number}",
                f"cannot use its directory: {status.directory}. It serves clients from memory, but after a restart it"
                " reads up to 256 MiB of each partition again, and does not notice a ZooKeeper that was restored to an"
                " older copy",
                "make its `directory` writable, or free space there; it goes on without a restart",
            )


def brokers_that_trouble_gateways(checkup: Checkup) -> Iterator[Finding]:
    """Find brokers that gateways do not serve on purpose, and those at which today's clients wait."""
    for number, status in sorted(checkup.gateways.items()):
        for broker_id, fault in sorted(status.brokers.items()):
            yield Finding(f"broker {broker_id}", f"gateway {number}: {fault.text}", fault.remedy)


def deleted_topics_that_are_many(checkup: Checkup) -> Iterator[Finding]:
    """Find deleted topics of which gateways keep nearly as many message numbers as they may."""
    if checkup.deleted_topics >= _MANY_DELETED_TOPICS:
        yield Finding(
            "gateways",
            f"keep the message numbers of {checkup.deleted_topics:,} deleted topics in {paths.GATEWAY_FLOORS}. Beyond"
            f" {MOST_TOPICS:,}, they replace the oldest by one number, above which every new topic begins",
            "nothing has to be done: consumers notice higher numbers only. To keep them low, delete topics less often",
        )


def topics_without_a_broker(checkup: Checkup) -> Iterator[Finding]:
    """Find topics that no living broker has, and topics that only some brokers have."""
    brokers = checkup.cluster.brokers
    for topic, counts in checkup.cluster.topics.items():
        if not counts:
            yield Finding(
                f"topic {topic}",
                "no living broker has it: its messages are on a broker that is down",
                "start that broker; if it will not come back, the name that remains does no harm",
            )
            continue
        without = sorted(brokers.keys() - counts.keys())
        if without:
            yield Finding(
                f"topic {topic}",
                f"only {_listed(counts)} of {len(brokers)} brokers have it, and take all its load",
                f"kafka2011 topics create {topic} extends it to {_listed(without)}, unless this was meant",
            )
        unregistered = sorted(counts.keys() - brokers.keys())
        if unregistered:
            yield Finding(
                f"topic {topic}",
                f"{_listed(unregistered)} has registered the topic, but not itself: producers cannot reach its"
                f" partitions",
                "restart that broker",
            )


def requests_that_wait(checkup: Checkup) -> Iterator[Finding]:
    """Find what brokers were asked to do with topics, and have not done: they are away, refuse, or do not look."""
    for asked in checkup.requests:
        where = f"broker {asked.broker_id}"
        if asked.refusal is not None:
            yield Finding(
                where,
                f"refuses a request for topic {asked.topic}: {asked.refusal}",
                "repeat the command, which replaces the old request",
            )
        elif asked.broker_id not in checkup.cluster.brokers:
            yield Finding(
                where,
                f"is down, and will {asked.what} when it starts: requested {_ago(asked.age_s)}",
                "start it; if it never comes back, the request that remains does no harm",
            )
        elif asked.age_s > SLOW_REQUEST_S:
            yield Finding(
                where,
                f"was requested {_ago(asked.age_s)} to {asked.what}, and has not done it",
                "its log says what it waits for; it may be deleting large logs. A 0.7 broker with this id does not"
                " read requests",
            )


def _ago(age_s: float) -> str:
    return f"{age_s / 3600:.0f} h ago" if age_s >= 2 * 3600 else f"{max(age_s, 0) / 60:.0f} min ago"


def partitions_without_an_owner(checkup: Checkup) -> Iterator[Finding]:
    """Find what keeps groups that have members from reading each partition once."""
    for name, group in checkup.cluster.groups.items():
        for problem in checkup.cluster.problems(name) if group.members else ():
            yield Finding(
                f"group {name}",
                problem,
                "for a few seconds after a change this is a rebalance; if it stays, read the members' logs, and"
                " restart the named member",
            )


def owners_without_a_member(checkup: Checkup) -> Iterator[Finding]:
    """Find partitions whose owner is no member of the group: nobody reads them, and nobody else can."""
    for name, group in checkup.cluster.groups.items():
        for where, owner in group.owners.items() if not group.members else ():
            yield Finding(
                f"group {name}",
                f"{where} is owned by {owner.stream_id}, and the group has no members",
                "the owner's session is still open: end its process, or wait until the session has ended",
            )


def offsets_outside_the_log(checkup: Checkup) -> Iterator[Finding]:
    """Find committed offsets that a partition no longer has, or does not have yet."""
    for name in checkup.cluster.groups:
        for partition in checkup.cluster.group_partitions(name):
            where, committed = partition.where, partition.committed
            if committed is None or partition.end is None or partition.earliest is None:
                continue
            if committed > partition.end:
                yield Finding(
                    f"group {name}",
                    f"has committed offset {committed} of {where}, which ends at {partition.end}: its log was lost"
                    f" or recreated",
                    f"stop the members; kafka2011 groups reset --group {name} --topic {where.topic} --to earliest",
                )
            elif committed < partition.earliest:
                yield Finding(
                    f"group {name}",
                    f"has committed offset {committed} of {where}, which begins at {partition.earliest}: retention"
                    f" has deleted {partition.earliest - committed} bytes that the group has not read",
                    "they are lost; keep logs longer, or read faster. Members continue where autooffset.reset says",
                )


def offsets_within_messages(checkup: Checkup) -> Iterator[Finding]:
    """Find committed offsets at which no message starts: whoever goes on there meets what is no message."""
    for name, faults in checkup.misplaced.items():
        for where, fault in faults.items():
            yield Finding(
                f"group {name}",
                f"has committed an offset of {where} at which no message starts: {fault}",
                "it was written by hand, or the log was recreated: stop the members, and kafka2011 groups reset"
                f" --group {name} --topic {where.topic} --to earliest",
            )


def members_that_cannot_be_read(checkup: Checkup) -> Iterator[Finding]:
    """Find members whose registration makes no sense."""
    for name, group in checkup.cluster.groups.items():
        for member in group.malformed:
            yield Finding(
                f"group {name}",
                f"member {member} has registered {group.members[member].subscription!r:.200}, which is not a"
                f" subscription",
                "end its process. Members of this package ignore it; 0.7 members stall on it",
            )


def lag_that_grows(before: ClusterSnapshot, now: ClusterSnapshot) -> Iterator[Finding]:
    """Find partitions of which a group with members has committed nothing while more has come."""
    for name, group in now.groups.items():
        if name not in before.groups or not group.members or not before.groups[name].members:
            continue
        earlier = {partition.where: partition for partition in before.group_partitions(name)}
        for partition in now.group_partitions(name):
            first = earlier.get(partition.where, partition)
            lag, lag_before = partition.lag_bytes, first.lag_bytes
            if lag is None or lag_before is None:
                continue
            if lag > lag_before and partition.committed == first.committed:
                yield Finding(
                    f"group {name}",
                    f"lags by {lag} bytes in {partition.where}, {lag - lag_before} more than at the first sample,"
                    f" and has committed nothing meanwhile",
                    f"{group.described(partition.owner or 'nobody')} should read it: its log says what it waits for. An"
                    f" autocommit.interval.ms longer than --seconds looks the same",
                )


def nodes_that_cannot_be_read(checkup: Checkup) -> Iterator[Finding]:
    """Find znodes that no broker or consumer of 0.7 has written."""
    for text in checkup.malformed:
        yield Finding("ZooKeeper", text, "another program writes below this chroot: give it its own chroot")


def nodes_that_are_open(checkup: Checkup) -> Iterator[Finding]:
    """Find znodes that need no password although there is one."""
    open_nodes = checkup.protection.open_nodes
    if open_nodes:
        number, first = len(open_nodes), open_nodes[0]
        yield Finding(
            "ZooKeeper",
            f"everybody may change {first}" + (f" and {number - 1} more znodes" if number > 1 else ""),
            "kafka2011 protect restricts them to the user of zk.connect; 0.7 clients and brokers are then shut out",
        )


def processes_that_are_shut_out(checkup: Checkup) -> Iterator[Finding]:
    """Find brokers and members without a user that live and need znodes which are the user's."""
    for registration, path in checkup.protection.shut_out.items():
        yield Finding(
            registration,
            f"is registered without the user of zk.connect, and needs {path}, which only that user may change",
            "give its process the password, or stop it; or run kafka2011 protect --undo to allow 0.7 in this cluster",
        )


def replicas_that_are_too_few(checkup: Checkup) -> Iterator[Finding]:
    """Find broker ids that nobody leads, or of whose logs there is one copy, and replicas that are not in sync."""
    for number, broker in checkup.cluster.replicas.items():
        yield from _troubles(broker)
        where, leader = f"replicas of broker {number}", broker.leader
        in_sync = [replica.name for replica in broker.in_sync]
        if leader is None:
            yield Finding(
                where,
                f"no replica leads: in sync are {', '.join(in_sync)}, and alive"
                f" {', '.join(replica.name for replica in broker.alive) or 'none'}",
                f"start {' or '.join(in_sync)}, which will lead; if its disk is lost, kafka2011"
                f" replicas elect {number} with one that is alive, and --accept-loss",
            )
            continue
        if len(in_sync) == 1:
            yield Finding(
                where,
                f"only {in_sync[0]} is in sync: messages confirmed now are on one disk",
                "start another replica, or read its log if it runs",
            )
        for replica in broker.alive:
            if not replica.is_in_sync and not replica.trouble:
                behind = "" if replica.bytes_behind is None else f", and {replica.bytes_behind} bytes behind"
                yield Finding(
                    f"replica {replica.name} of broker {number}",
                    f"is not in sync{behind}",
                    "wait while it catches up; otherwise its log says why it cannot",
                )
        if broker.error:
            yield Finding(
                where,
                f"{leader.name} leads, and does not report the lag of the others: {broker.error}",
                "if other replicas reach it, a firewall may be between it and this machine",
            )


def _troubles(broker: BrokerReplicas) -> Iterator[Finding]:
    for replica in broker.alive:
        where = f"replica {replica.name} of broker {broker.broker_id}"
        if replica.damage:
            yield Finding(
                where,
                replica.damage,
                "look at the disk's health. A replica in sync with good bytes repairs what is damaged; if it stays,"
                " nobody has them. Of two that differ, give the wrong one an empty log.dir"
                " (docs/how-to/replication.md)",
            )
        if replica.trouble:
            yield Finding(
                where,
                replica.trouble,
                "one that has gone back catches up once another in sync leads, or kafka2011 replicas elect"
                f" {broker.broker_id} {replica.name} --accept-loss gives up what it lacks; one that differs from its"
                " leader waits until you give the wrong one of the two an empty log.dir; one that cannot copy damaged"
                " bytes waits until another replica has repaired them (docs/how-to/replication.md)",
            )


CHECKS: tuple[Callable[[Checkup], Iterator[Finding]], ...] = (
    servers_that_do_not_serve,
    nodes_that_cannot_be_read,
    nodes_that_are_open,
    processes_that_are_shut_out,
    brokers_that_do_not_answer,
    replicas_that_are_too_few,
    addresses_that_clash,
    clocks_that_are_apart,
    clocks_that_retention_doubts,
    brokers_without_a_gateway,
    gateways_without_files,
    brokers_that_trouble_gateways,
    deleted_topics_that_are_many,
    topics_without_a_broker,
    requests_that_wait,
    partitions_without_an_owner,
    owners_without_a_member,
    offsets_outside_the_log,
    offsets_within_messages,
    members_that_cannot_be_read,
)
"""Those of one moment."""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listed(brokers: Iterable[int]) -> str:
    names = [str(number) for number in brokers]
    return f"broker {names[0]}" if len(names) == 1 else f"brokers {', '.join(names)}"
