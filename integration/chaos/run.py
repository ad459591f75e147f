"""One run: a cluster suffers what its schedule says, is healed, and everything that was written down is read."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from integration.chaos.cluster import BROKERS, FIRST_TOPIC, PARTITIONS, Cluster
from integration.chaos.cluster_faults import GROWING, STEADY, ClusterFaults, start_clients
from integration.chaos.evidence import Evidence, Happened
from integration.chaos.gateway import read_as_today
from integration.chaos.java_clients import JavaClients
from integration.chaos.records import Logged, Place, identify, read_member, read_sent, read_told, whole_lines
from integration.chaos.registry_history import history_of, wall_to_lease_s
from integration.chaos.sampler import Sampler
from integration.chaos.schedule import to_json
from integration.chaos.segments import logged_in
from integration.chaos.zk_log import merge
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import InvalidMessageError
from kafka2011.wire.protocol import EARLIEST
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from integration.chaos.faults import Faults
    from integration.chaos.registry_history import RegistryHistory
    from integration.chaos.schedule import Fault
    from zk.cluster import TopicPartition

DRAIN_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 60.0
_POLL_S = 0.25
_NOT_THE_LEADERS_DATA = b"Digests are not matching"
_COMPLAINT = "Traceback (most recent call last)"

now_s = SYSTEM_CLOCK.monotonic_s


def run_schedule(
    seed: int,
    seconds: float,
    faults: Sequence[Fault],
    directory: Path,
    say: Callable[[str], None],
    *,
    secure: bool = False,
    gateways: int = 0,
    jars: Path | None = None,
) -> Evidence:
    """Let a cluster suffer a schedule, heal it, wait for the groups, and return what everybody wrote down.

    With the jars of kafka-clients, a Java producer and a Java consumer work through the gateways all the time.
    """
    directory = directory.absolute()
    directory.mkdir(parents=True)
    (directory / "schedule.json").write_text(to_json(seed, seconds, faults))
    evidence = Evidence(is_secure=secure)
    say("starting ZooKeeper, brokers, producers and members")
    with (
        Cluster(directory, secure=secure, gateways=gateways) as cluster,
        Sampler(cluster) as sampler,
        ExitStack() as stack,
    ):
        start_clients(cluster)
        java: list[JavaClients] = []
        if jars is not None:
            made = JavaClients(cluster.gateways, FIRST_TOPIC, BROKERS * PARTITIONS, cluster.processes, jars)
            java.append(stack.enter_context(made))
        evidence.started_s = now_s()
        say(f"{len(faults)} faults in {seconds:g} s")
        _suffer(cluster, faults, seconds, evidence, say)
        say("healing everything")
        cluster.heal()
        evidence.healed_s = now_s()
        sampler.take()
        evidence.troubles += cluster.end("producer", _END_TIMEOUT_S)
        _read_producers(cluster, evidence)
        for each in java:
            evidence.troubles += each.end_producer()
            each.note_sent(evidence)
        say("all is sent; reading the logs back")
        _read_logs(cluster, evidence)
        if cluster.gateways:
            evidence.troubles += read_as_today(cluster.zk_connect, cluster.gateways, cluster.topics(), evidence)
        for each in java:
            evidence.troubles += each.end_consumer(evidence)
        say("waiting for the groups")
        _await_groups(cluster, evidence)
        sampler.take()
        evidence.samples = sampler.samples
        evidence.troubles += cluster.end("member", _END_TIMEOUT_S)
        evidence.deletions = [each for broker in cluster.brokers.values() for each in broker.archive.deletions()]
        evidence.vanished = cluster.vanished
        evidence.ended_s = now_s()
        _read_members(cluster, evidence)
        evidence.registry = _read_registry(cluster)
        evidence.servers_apart = _count_servers_apart(cluster)
        evidence.troubles += _read_complaints(cluster)
    return evidence


def _suffer(
    cluster: Cluster, faults: Sequence[Fault], seconds: float, evidence: Evidence, say: Callable[[str], None]
) -> None:
    """Begin and end faults when their time has come, until the last has ended and so many seconds have passed."""
    executor = ClusterFaults(cluster)
    with (cluster.directory / "events.jsonl").open("w", buffering=1) as events:
        for moment in executor.live_through(faults, evidence.started_s):
            _revive(executor, evidence)
            if moment is None:
                continue
            fault, begun, began_s, is_over = moment
            whom = begun.whom if begun else ()
            if is_over or begun is None:
                evidence.happened.append(Happened(fault, whom, began_s, now_s() if is_over else began_s))
            if is_over:
                continue
            events.write(json.dumps({"stamp_s": began_s, "kind": fault.kind, "whom": whom}) + "\n")
            say(f"{began_s - evidence.started_s:6.1f} s  {_text(fault, whom)}")
            if whom and fault.kind.startswith("kill"):
                evidence.killed_s[whom[0]] = now_s()
    time.sleep(max(0.0, evidence.started_s + seconds - now_s()))
    _revive(executor, evidence)


def _revive(executor: Faults, evidence: Evidence) -> None:
    for name, last_words, was_ready in executor.revive():
        evidence.starts_given_up += not was_ready
        if was_ready:
            evidence.troubles.append(f"{name} ended by itself: {last_words}")


def _text(fault: Fault, whom: tuple[str, ...]) -> str:
    how = f" {fault.mode} {fault.ways}" if fault.kind == "link" else ""
    lasts = f" for {fault.lasts_s:.1f} s" if fault.lasts_s else ""
    return f"{fault.kind}{how}{lasts}: {', '.join(whom) or 'nobody is left for it'}"


def _read_producers(cluster: Cluster, evidence: Evidence) -> None:
    for client in cluster.clients:
        if client.kind == "producer":
            evidence.sent += read_sent(client.name, whole_lines(client.notes))
            evidence.told |= read_told(client.name, whole_lines(client.notes))


def _read_members(cluster: Cluster, evidence: Evidence) -> None:
    for client in cluster.clients:
        if client.kind == "member":
            evidence.members[client.name] = read_member(client.name, whole_lines(client.notes))
            evidence.groups.setdefault(client.group, []).append(client.name)
            evidence.styles[client.name] = client.style


def _read_complaints(cluster: Cluster) -> Iterator[str]:
    """Yield which processes logged an error that they did not expect."""
    outputs = {client.name: client.process.log_path for client in cluster.clients}
    outputs |= {broker.name: broker.output_path for broker in cluster.brokers.values()}
    outputs |= {gateway.name: gateway.output_path for gateway in cluster.gateways}
    for name, path in outputs.items():
        found = path.read_text(errors="replace").count(_COMPLAINT)
        if found:
            yield f"{name} logged {found} tracebacks in {path}"


def _read_registry(cluster: Cluster) -> RegistryHistory:
    logs = [server.transaction_logs() for server in cluster.ensemble.servers.values()]
    return history_of(merge(logs), wall_to_lease_s(SYSTEM_CLOCK))


def _count_servers_apart(cluster: Cluster) -> int:
    """Count the servers of ZooKeeper that found out that their data is not their leader's: a defect of its own.

    One that leads, is deposed and starts again may keep what it alone had written, in a snapshot.
    """
    logs = (server.process.log_path.read_bytes() for server in cluster.ensemble.servers.values())
    return sum(_NOT_THE_LEADERS_DATA in log for log in logs)


def _await_groups(cluster: Cluster, evidence: Evidence) -> None:
    """Wait until each group has received all that was confirmed, or the deadline comes; the account tells the rest."""
    there = {logged.message for logged in evidence.logged if not logged.gone}
    wanted = {sent.message for sent in evidence.confirmed() if sent.message in there}
    deadline_s = now_s() + DRAIN_TIMEOUT_S
    missing = {group: set(wanted) for group in (GROWING, STEADY)}
    files = {client: client.notes.open() for client in cluster.clients if client.kind == "member"}
    rests = dict.fromkeys(files, "")
    while any(missing.values()) and now_s() < deadline_s:
        for client, file in files.items():
            *lines, rests[client] = (rests[client] + file.read()).split("\n")
            received = read_member(client.name, (f"{line}\n" for line in lines)).receipts
            missing[client.group].difference_update(receipt.message for receipt in received if receipt.message)
        time.sleep(_POLL_S)
    for file in files.values():
        file.close()


def _read_logs(cluster: Cluster, evidence: Evidence) -> None:
    """Read what brokers serve, and what they no longer do but once had, with what removed that."""
    flips = {(flip.where, flip.offset): flip.next_offset for flip in cluster.flips}
    for flip in cluster.flips:
        evidence.starts.setdefault(flip.where, set()).add(flip.next_offset)
    for broker in cluster.brokers.values():
        segments = broker.archive.segments()
        firsts: dict[TopicPartition, int] = {}
        served: dict[Place, Logged] = {}
        security = cluster.security
        with SimpleConsumer("127.0.0.1", broker.port, broker_id=broker.broker_id, security=security) as consumer:
            for where in {segment.where for segment in segments}:
                [firsts[where]] = consumer.get_offsets_before(where.topic, where.partition, EARLIEST, 1)
                served.update((logged.place, logged) for logged in _read_log(consumer, where, firsts[where], flips))
        deleted = {(each.where, each.offset) for each in broker.archive.deletions()}
        for segment in segments:
            for logged in logged_in(segment):
                where, offset, _ = logged.place
                if (where, offset) in flips:
                    served[logged.place] = logged._replace(gone="a flipped bit")
                elif offset < firsts[where] and segment[:2] in deleted:
                    served.setdefault(logged.place, logged._replace(gone="retention"))
            evidence.starts.setdefault(segment.where, set()).add(segment.offset)
        evidence.logged += (served[place] for place in sorted(served))


def _read_log(
    consumer: SimpleConsumer, where: TopicPartition, offset: int, flips: dict[tuple[TopicPartition, int], int]
) -> Iterator[Logged]:
    while True:
        fetched = consumer.fetch(where.topic, where.partition, offset)
        if not fetched.data:
            return
        try:
            for message in fetched:
                found, key = identify(message.payload) or (None, "")
                yield Logged(Place(where, message.offset, message.index_in_set), found, key)
                offset = message.next_offset
        except InvalidMessageError:
            if (where, offset) not in flips:
                yield Logged(Place(where, offset, 0), None, "")
                return
            offset = flips[where, offset]
