"""The replicas of broker ids: who leads, who is in sync and how far behind, and what only an operator decides."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.admin.partitions import ASK_TIMEOUT_MS
from kafka2011.disk import is_directory
from kafka2011.errors import KafkaError
from kafka2011.log.label import labelled_broker
from kafka2011.log.segment import find_segment_files
from kafka2011.message.topic import log_directory_name, parse_log_directory_name
from kafka2011.replica.known_file import KnownFile
from kafka2011.replica.lineage import DRAW_BYTES, SeenState, read_seen
from kafka2011.replica.standing import Standing, decode_answer, encode_request
from kafka2011.replica.state import Replica, ReplicaState, ReplicaStateError, to_be_elected
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import decode_response
from zk import paths
from zk.brokers import BrokerRegistry
from zk.consumers import ConsumerRegistry
from zk.errors import NodeExists, NoNode, VersionConflict
from zk.offsets import OffsetRegistry
from zk.replicas import ReplicaRegistry, replicated_brokers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from zk.client import ZkClient
    from zk.cluster import TopicPartition
    from zk.replicas import Member, ReplicaNodes


LEADER = "leader"


class ReplicaChangeError(KafkaError):
    """What was asked for would lose data, or makes no sense now; nothing was changed."""


@dataclass(frozen=True, slots=True)
class ReplicaStanding:
    """One replica of a broker id, alive or only known as in sync, and how far it is behind its leader if that says so.

    `role` is `leader`, `follower`, `waiting` (it lives, and nobody leads) or `away`. `trouble` is what it says
    itself of what keeps it from leading and following, and `damage` of what is damaged on its disk.
    """

    broker_id: int
    replica: Replica
    role: str
    is_in_sync: bool
    epoch: int
    address: str | None
    bytes_behind: int | None
    seconds_behind: float | None
    trouble: str = ""
    damage: str = ""

    @property
    def name(self) -> str:
        """What its process is called."""
        return self.replica.name


@dataclass(frozen=True, slots=True)
class BrokerReplicas:
    """The replicas of one broker id. `error` says why the leader does not tell how far they are behind."""

    broker_id: int
    state: ReplicaState
    replicas: tuple[ReplicaStanding, ...]
    error: str = ""

    @property
    def leader(self) -> ReplicaStanding | None:
        """The replica that leads."""
        return next((replica for replica in self.replicas if replica.role == LEADER), None)

    @property
    def in_sync(self) -> list[ReplicaStanding]:
        """Those that have everything that was confirmed."""
        return [replica for replica in self.replicas if replica.is_in_sync]

    @property
    def alive(self) -> list[ReplicaStanding]:
        """Those whose processes are there."""
        return [replica for replica in self.replicas if replica.address is not None]


def describe_replicas(client: ZkClient) -> tuple[dict[int, BrokerReplicas], list[str]]:
    """Return the replicas of every broker id that has any, and an error for each id whose state cannot be read.

    Asks each leader how far its followers are behind. Raises ZkError.
    """
    replicas: dict[int, BrokerReplicas] = {}
    unreadable: list[str] = []
    for broker_id in replicated_brokers(client):
        try:
            replicas[broker_id] = describe_broker(client, broker_id)
        except ReplicaChangeError:  # they were removed
            continue
        except ReplicaStateError as error:
            unreadable.append(str(error))
    return replicas, unreadable


def describe_broker(client: ZkClient, broker_id: int) -> BrokerReplicas:
    """Return the replicas of one broker id. Raises ReplicaStateError, and ReplicaChangeError when it has none."""
    nodes = ReplicaRegistry(client, broker_id).read()
    state = _state_of(broker_id, nodes)
    leader = None if nodes.leader is None else _leader_of(broker_id, nodes.leader)
    alive = _alive(nodes)
    standings: dict[Replica, Standing] = {}
    error = ""
    if leader is not None:
        try:
            standings = _ask(client, leader, alive.get(leader))
        except KafkaError as refused:
            error = str(refused)
    replicas = []
    for replica in sorted(alive.keys() | state.in_sync | ({leader} if leader else set())):
        member, standing = alive.get(replica), standings.get(replica)
        role = LEADER if replica == leader else "away" if member is None else "follower" if leader else "waiting"
        bytes_behind, seconds_behind = (0, 0.0) if replica == leader else (None, None)
        if standing is not None and member is not None:
            bytes_behind, seconds_behind = standing.bytes_behind, standing.seconds_behind
        address = None if member is None else f"{member.host}:{member.port}"
        trouble, damage = ("", "") if member is None else (member.trouble, member.damage)
        replicas.append(
            ReplicaStanding(
                *(broker_id, replica, role, replica in state.in_sync, state.epoch, address),
                bytes_behind,
                seconds_behind,
                trouble,
                damage,
            )
        )
    return BrokerReplicas(broker_id, state, tuple(replicas), error)


def _ask(client: ZkClient, leader: Replica, member: Member | None) -> dict[Replica, Standing]:
    if member is None:
        raise KafkaError(f"the leader {leader} has no znode among the members")
    security = client.security
    if member.by_tls and security.brokers is None:
        raise KafkaError(f"the leader {leader} listens over TLS only, and zk.connect names no security file")
    connection = BrokerConnection(
        member.host,
        member.port,
        connect_timeout_ms=ASK_TIMEOUT_MS,
        socket_timeout_ms=ASK_TIMEOUT_MS,
        security=security.path if member.by_tls else "",
    )
    try:
        body = decode_response(connection.request(encode_request()), "how its followers are")
    finally:
        connection.close()
    return {standing.replica: standing for standing in decode_answer(body, f"the leader {leader}")}


def begin_replicas(
    client: ZkClient, broker_id: int, name: str, log_dir: Path, *, is_new: bool = False, accept_loss: bool = False
) -> Replica:
    """Make the first state: the replica of this name, whose log.dir this is, has everything that the broker has.

    The log.dir gets its disk's id. An empty one is refused, unless the broker `is_new`; so is one that was a replica's
    before, or ends before a group's offset, unless the loss is accepted. Raises ReplicaChangeError, ReplicaStateError
    and OSError.
    """
    registry = ReplicaRegistry(client, broker_id)
    if registry.read().state is not None:
        raise ReplicaChangeError(f"broker {broker_id} has replicas already")
    if broker_id in BrokerRegistry(client).brokers():
        raise ReplicaChangeError(
            f"broker {broker_id} is running: stop it first, and start it with replica.name={name} afterwards"
        )
    _check_log_dir(broker_id, log_dir, is_new=is_new)
    if not accept_loss:
        _check_has_all(client, broker_id, log_dir)
    known = KnownFile(log_dir).load_or_begin(name)
    state = ReplicaState.first(known.replica, secrets.token_hex(DRAW_BYTES), known.epoch)
    try:
        registry.begin(state.text)
    except NodeExists as error:
        raise ReplicaChangeError(f"broker {broker_id} was given replicas meanwhile") from error
    return known.replica


def _check_log_dir(broker_id: int, log_dir: Path, *, is_new: bool) -> None:
    if not is_directory(log_dir):
        raise ReplicaChangeError(f"{log_dir} is not a directory: give the log.dir of broker {broker_id}")
    labelled = labelled_broker(log_dir)
    if labelled not in {None, broker_id}:
        raise ReplicaChangeError(f"{log_dir} is the log.dir of broker {labelled}, not of {broker_id}")
    if not is_new and not any(parse_log_directory_name(path.name) for path in log_dir.iterdir() if is_directory(path)):
        raise ReplicaChangeError(
            f"{log_dir} has no logs: replicas would follow an empty one. Name the log.dir that has everything, or say"
            f" that broker {broker_id} is new"
        )


def _check_has_all(client: ZkClient, broker_id: int, log_dir: Path) -> None:
    """Refuse a log.dir that may lack what others have, or had. Raises ReplicaChangeError and OSError."""
    known = KnownFile(log_dir).load()
    if known is not None and known.epoch:
        raise ReplicaChangeError(
            f"{log_dir} was a replica's in epoch {known.epoch}: another log.dir may have more. If this one has"
            " everything, accept the loss of what it lacks"
        )
    stored = OffsetRegistry(client)
    for group in ConsumerRegistry(client).groups():
        for topic in stored.topics(group):
            for where, committed in stored.offsets(group, topic).items():
                if where.broker_id == broker_id and committed.offset > (end := _end_on_disk(log_dir, where)):
                    raise ReplicaChangeError(
                        f"group {group} has consumed {where} up to offset {committed.offset}, and in {log_dir} it"
                        f" ends at {end}: another log.dir may have more. If none has, accept the loss"
                    )


def _end_on_disk(log_dir: Path, where: TopicPartition) -> int:
    directory = log_dir / log_directory_name(where.topic, where.partition)
    files = find_segment_files(directory) if is_directory(directory) else []
    return max((start + path.stat().st_size for start, path in files), default=0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A replica that is alive, and the newest state that its disk knows of; None if it does not say.

    `is_proposed` says whether ZooKeeper has gone back to an older state, and this one's disk has most of those that are
    alive. It `may_lack` something even so.
    """

    replica: Replica
    seen: SeenState | None
    is_proposed: bool
    may_lack: bool


def candidates(client: ZkClient, broker_id: int) -> list[Candidate]:
    """Return whom an operator may elect. Raises ReplicaChangeError and ReplicaStateError."""
    nodes = ReplicaRegistry(client, broker_id).read()
    state, alive = _state_of(broker_id, nodes), _alive(nodes)
    seen = _seen_by(alive)
    proposal = to_be_elected(state, nodes.version, seen)
    best = None if proposal is None else proposal.replica
    may_lack = proposal is not None and proposal.may_lack
    return [
        Candidate(replica, seen.get(replica), replica == best, replica == best and may_lack)
        for replica in sorted(alive)
    ]


def elect(client: ZkClient, broker_id: int, name: str) -> tuple[Replica, ReplicaState]:
    """Let a replica lead that is not known to have everything; return it, and the state that was given up.

    Only when nobody leads, and nobody in sync is alive who would do so: one whose disk has gone back would not, nor
    would anybody if ZooKeeper has gone back. What the elected one does not have is lost; others that have it cut it off
    when they follow, and keep a copy. Raises ReplicaChangeError and ReplicaStateError.
    """
    registry = ReplicaRegistry(client, broker_id)
    nodes = registry.read()
    state, alive = _state_of(broker_id, nodes), _alive(nodes)
    if nodes.leader is not None:
        raise ReplicaChangeError(f"{nodes.leader} leads broker {broker_id}: no election is needed")
    seen = _seen_by(alive)
    able = sorted(str(replica) for replica in alive.keys() & state.in_sync if not alive[replica].trouble)
    if able and to_be_elected(state, nodes.version, seen) is None:
        raise ReplicaChangeError(
            f"{', '.join(able)} is in sync and alive, and will lead broker {broker_id} without this"
        )
    chosen = next((replica for replica in alive if replica.name == name), None)
    if chosen is None:
        raise ReplicaChangeError(
            f"replica {name} of broker {broker_id} is not alive: start it; alive are {_names(alive) or 'none'}"
        )
    seen_epoch = max((it.epoch for it in seen.values()), default=0)
    elected = state.elected(chosen, nodes.version, secrets.token_hex(DRAW_BYTES), seen_epoch)
    _write(registry, broker_id, elected, nodes.version)
    return chosen, state


def _alive(nodes: ReplicaNodes) -> dict[Replica, Member]:
    return {Replica(name, member.disk): member for name, member in nodes.members.items()}


def _seen_by(alive: Mapping[Replica, Member]) -> dict[Replica, SeenState]:
    return read_seen({replica: member.seen for replica, member in alive.items()})


def remove_replicas(client: ZkClient, broker_id: int) -> ReplicaState:
    """Forget that a broker id has replicas, once none of them is alive; return what the state was.

    One of those that were in sync goes on as a broker without `replica.name`. Raises ReplicaChangeError and
    ReplicaStateError.
    """
    registry = ReplicaRegistry(client, broker_id)
    nodes = registry.read()
    state = _state_of(broker_id, nodes)
    if nodes.members:
        raise ReplicaChangeError(
            f"replicas of broker {broker_id} are alive: stop {', '.join(sorted(nodes.members))} first"
        )
    try:
        registry.remove(nodes.version)
    except VersionConflict as error:
        raise _changed(broker_id) from error
    return state


def _write(registry: ReplicaRegistry, broker_id: int, state: ReplicaState, version: int) -> None:
    try:
        registry.write(state.text, version)
    except (VersionConflict, NoNode) as error:
        raise _changed(broker_id) from error


def _changed(broker_id: int) -> ReplicaChangeError:
    return ReplicaChangeError(f"the state of the replicas of broker {broker_id} has changed meanwhile: check again")


def _state_of(broker_id: int, nodes: ReplicaNodes) -> ReplicaState:
    if nodes.state is None:
        raise ReplicaChangeError(f"broker {broker_id} has no replicas")
    return ReplicaState.of(nodes.state, paths.replica_state(broker_id))


def _leader_of(broker_id: int, text: str) -> Replica:
    try:
        return Replica.of(text)
    except ValueError as error:
        raise ReplicaStateError(f"{paths.replica_leader(broker_id)}: {error}") from error


def _names(replicas: Iterable[Replica]) -> str:
    return ", ".join(sorted(replica.name for replica in replicas))
