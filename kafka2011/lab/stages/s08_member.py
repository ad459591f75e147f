"""Stage 8: a member of a group registers, owns its share of the partitions, and leaves."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kafka2011.consumer.rebalance import assign
from kafka2011.consumer.topic_count import stream_ids
from kafka2011.lab import paper
from kafka2011.lab.coordination import GROUP, TOPIC, Registries, Session, owner_path, registries
from kafka2011.lab.errors import WrongError
from kafka2011.lab.frame_server import FrameServer
from kafka2011.lab.model_broker import ModelBroker
from zk.cluster import TopicPartition
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafka2011.lab.bench import Bench
    from kafka2011.lab.program import ProgramRun, StudentProgram

MINE = "g_web2-1307836800000-0c0ffee0"
_BEFORE, _AFTER = "g_web1-1307836800000-0000000a", "g_web3-1307836800000-0000000b"
_STREAMS = 2
_SESSION_MS = 2500
_KILLED_S = 12.0
_HELD_S = 0.6


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    with registries() as zookeeper, ExitStack() as stack:
        session = stack.enter_context(zookeeper.session())
        port = stack.enter_context(empty_broker(bench.directory)).port
        session.register_broker(0, port, 3)
        with started(bench.program, zookeeper, MINE) as run:
            register(bench, zookeeper, run)
            brokers(bench, zookeeper, session, run, port)
            others(bench, zookeeper, run)
            conflict(bench, zookeeper, session, run, port)
            two_programs(bench, zookeeper, run)
            leave(bench, zookeeper, run)


@contextmanager
def started(
    program: StudentProgram, zookeeper: Registries, member: str, streams: int = _STREAMS, commit_ms: int = 1000
) -> Iterator[ProgramRun]:
    """Run the program as a member, and kill it in the end."""
    settings = {
        "zookeeper": zookeeper.connect_string,
        "session-ms": _SESSION_MS,
        "group": GROUP,
        "id": member,
        "topic": TOPIC,
        "streams": streams,
        "commit-ms": commit_ms,
    }
    run = program.start(["member", *(f"{name}={value}" for name, value in settings.items())])
    try:
        yield run
    finally:
        run.end()


@contextmanager
def empty_broker(directory: Path) -> Iterator[FrameServer]:
    """Provide a broker without messages."""
    (directory / "empty").mkdir()
    model = ModelBroker(directory / "empty", {"partitions": 10})
    with model, FrameServer(lambda _, frame: model.answer(frame), free_port()) as server:
        yield server


def wanted_owners(brokers: Mapping[int, int], members: Mapping[str, int]) -> dict[str, str]:
    """Return which stream owns each partition by Algorithm 1."""
    streams = [stream for member, count in members.items() for stream in stream_ids(member, count)]
    shares = assign(TopicPartition.all_of(TOPIC, brokers), streams)
    return {where.znode_name: stream for stream, share in shares.items() for where in share}


def register(bench: Bench, zookeeper: Registries, run: ProgramRun) -> None:
    """Try what the program writes about itself."""
    path = f"/consumers/{GROUP}/ids/{MINE}"
    wanted = f'{{ "{TOPIC}": {_STREAMS} }}'.encode()
    with bench.check("The member is in the consumer registry", paper.REGISTER):
        zookeeper.wait(lambda: zookeeper.member(MINE) is not None, lambda: f"{path} does not exist.", run, 10)
        expect_node(zookeeper, path, wanted, is_ephemeral=True)
    with bench.check("The member owns all partitions, if it is alone", paper.OWNERSHIP):
        zookeeper.expect_owners(wanted_owners({0: 3}, {MINE: _STREAMS}), run)
    with bench.check("Its nodes in the ownership registry are ephemeral", paper.EPHEMERAL):
        expect_node(zookeeper, owner_path("0-0"), f"{MINE}-0".encode(), is_ephemeral=True)


def expect_node(zookeeper: Registries, path: str, wanted: bytes, *, is_ephemeral: bool) -> None:
    """Compare one node. Raises WrongError."""
    node = zookeeper.read(path)
    came, is_found_ephemeral = (b"", False) if node is None else (node[0], node[1].ephemeralOwner != 0)
    if came != wanted:
        raise WrongError(f"The data of {path} are wrong.", wanted=wanted, came=came)
    if is_found_ephemeral != is_ephemeral:
        kinds = {True: "ephemeral", False: "persistent"}
        raise WrongError(f"{path} should be {kinds[is_ephemeral]}. It is {kinds[is_found_ephemeral]}.")


def brokers(bench: Bench, zookeeper: Registries, session: Session, run: ProgramRun, port: int) -> None:
    """Try that brokers come and go."""
    with bench.check("A broker with 2 partitions is added", paper.REGISTER):
        session.register_broker(1, port, 2)
        zookeeper.expect_owners(wanted_owners({0: 3, 1: 2}, {MINE: _STREAMS}), run)
    with bench.check("The broker is removed", paper.REGISTER):
        session.remove_broker(1)
        zookeeper.expect_owners(wanted_owners({0: 3}, {MINE: _STREAMS}), run)
    with bench.check("A broker gets more partitions", paper.REGISTER):
        session.delete(f"/brokers/topics/{TOPIC}/0")
        session.register_broker(0, port, 5)
        zookeeper.expect_owners(wanted_owners({0: 5}, {MINE: _STREAMS}), run)


def others(bench: Bench, zookeeper: Registries, run: ProgramRun) -> None:
    """Try that other members join and leave; the lab plays them."""
    for other, title in (
        (_AFTER, "A member whose id is sorted behind"),
        (_BEFORE, "A member whose id is sorted before"),
    ):
        every = wanted_owners({0: 5}, {MINE: _STREAMS, other: 1})
        mine = {partition: owner for partition, owner in every.items() if owner.startswith(MINE)}
        with zookeeper.session() as session:
            with bench.check(f"{title} joins: the program keeps its share only", paper.UNIT):
                session.join(other, 1)
                zookeeper.expect_owners(mine, run)
            with bench.check(f"{title} takes its share: all partitions have an owner", paper.UNIT):
                for partition in every.keys() - mine.keys():
                    session.create(owner_path(partition), every[partition])
                zookeeper.expect_owners(every, run)
            with bench.check(f"{title} leaves: the program owns everything again", paper.EPHEMERAL):
                for partition in every.keys() - mine.keys():
                    session.delete(owner_path(partition))
                session.leave(other)
                zookeeper.expect_owners(wanted_owners({0: 5}, {MINE: _STREAMS}), run)


def conflict(bench: Bench, zookeeper: Registries, session: Session, run: ProgramRun, port: int) -> None:
    """Try a partition that its former owner has not released yet."""
    every = wanted_owners({0: 5, 1: 2}, {MINE: _STREAMS})
    with zookeeper.session() as slow:
        with bench.check("A partition that another still owns is not taken from it", paper.RELEASE):
            slow.create(owner_path("1-1"), f"{_BEFORE}-0")
            session.register_broker(1, port, 2)
            zookeeper.stays(
                lambda: zookeeper.owners().get("1-1") == f"{_BEFORE}-0",
                lambda: f"{owner_path('1-1')} belonged to {_BEFORE}-0. Your program changed or deleted it.",
                _HELD_S,
            )
        with bench.check("Meanwhile the program has released all that it owned", paper.RELEASE):
            held = {"1-1": f"{_BEFORE}-0"}
            zookeeper.expect_owners(held, run)
        with bench.check("When the partition is free, the program tries again and owns its share", paper.RELEASE):
            slow.delete(owner_path("1-1"))
            zookeeper.expect_owners(every, run)


def two_programs(bench: Bench, zookeeper: Registries, run: ProgramRun) -> None:
    """Try two runs of the program as members of a group, and kill one of them."""
    with started(bench.program, zookeeper, _AFTER, 1) as second:
        with bench.check("Two runs of your program share the partitions", paper.UNIT):
            members = {MINE: _STREAMS, _AFTER: 1}
            zookeeper.expect_owners(wanted_owners({0: 5, 1: 2}, members), second, 10)
        with bench.check("One of them is killed with kill -9: the other owns everything", paper.EPHEMERAL):
            second.end()
            zookeeper.expect_owners(wanted_owners({0: 5, 1: 2}, {MINE: _STREAMS}), run, _KILLED_S)


def leave(bench: Bench, zookeeper: Registries, run: ProgramRun) -> None:
    """Try the end of the program."""
    with bench.check("After SIGTERM, the program has left the group at once", paper.EPHEMERAL):
        run.stop()
        if zookeeper.member(MINE) is not None:
            raise WrongError(f"/consumers/{GROUP}/ids/{MINE} still exists after your program has ended.")
        if owners := zookeeper.owners():
            raise WrongError(f"These partitions still have owners: {', '.join(sorted(owners))}.")
