"""Stage 9: a member consumes, commits its offsets, and cannot overwrite those of the next owner."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka2011.lab import paper
from kafka2011.lab.coordination import Registries, Session, offset_path, owner_path, registries
from kafka2011.lab.errors import WrongError
from kafka2011.lab.frame_server import FrameServer
from kafka2011.lab.model_broker import ModelBroker
from kafka2011.lab.requests import message_set, produce
from kafka2011.lab.stages.s08_member import MINE, expect_node, started
from kafka2011.wire.protocol import FetchRequest, MultiFetchRequest, decode_request, encode_request
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.lab.bench import Bench
    from kafka2011.lab.program import ProgramRun

_MOST_BYTES = 40
_SOON_MS, _NEVER_MS = 100, 600_000
_WATCHED_S = 0.6
_OTHER = "g_web9-1307836800000-0c0ffee9-0"


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    with registries() as zookeeper, zookeeper.session() as session, _broker(bench.directory) as broker:
        session.register_broker(0, broker.port, 2)
        new_group(bench, zookeeper, broker)
        next_run(bench, zookeeper, broker)
        fence(bench, zookeeper, session, broker)


class _Broker:
    """A broker that returns at most 40 bytes a fetch, so that messages are cut."""

    def __init__(self, model: ModelBroker) -> None:
        self._model = model
        self.server = FrameServer(self._answer, free_port())

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.server.port

    def append(self, partition: int, *payloads: bytes) -> None:
        """Append messages to a partition of the topic."""
        self._model.answer(produce("views", message_set(*payloads), partition))

    def _answer(self, _number: int, frame: bytes) -> bytes | None:
        request = decode_request(frame[4:])
        if isinstance(request, FetchRequest):
            request = _small(request)
        elif isinstance(request, MultiFetchRequest):
            request = MultiFetchRequest(tuple(map(_small, request.fetches)))
        return self._model.answer(encode_request(request))


def _small(request: FetchRequest) -> FetchRequest:
    return FetchRequest(request.topic, request.partition, request.offset, min(request.max_bytes, _MOST_BYTES))


@contextmanager
def _broker(directory: Path) -> Iterator[_Broker]:
    (directory / "served").mkdir()
    with ModelBroker(directory / "served", {"partitions": 2}) as model:
        broker = _Broker(model)
        with broker.server:
            yield broker


def _expect_lines(zookeeper: Registries, run: ProgramRun, *wanted: bytes) -> None:
    """Wait until the program has written these lines, in any order. Raises WrongError."""

    def text(lines: list[bytes]) -> str:
        return ", ".join(line.decode("utf-8", "replace") for line in lines) or "nothing"

    zookeeper.wait(
        lambda: sorted(run.output().splitlines()) == sorted(wanted),
        lambda: f"Your program should have written {text(list(wanted))}. It wrote {text(run.output().splitlines())}.",
        run,
    )


def _expect_offset(zookeeper: Registries, run: ProgramRun, partition: str, wanted: int) -> None:
    def found() -> str:
        node = zookeeper.offset(partition)
        return "no node" if node is None else node[0].decode("utf-8", "replace")

    zookeeper.wait(
        lambda: found() == str(wanted),
        lambda: f"{offset_path(partition)} should have the offset {wanted}. It has {found()}.",
        run,
    )


def new_group(bench: Bench, zookeeper: Registries, broker: _Broker) -> None:
    """Try a group without offsets."""
    broker.append(0, b"a-one", b"a-two", b"a-three")
    broker.append(1, b"b-one")
    with started(bench.program, zookeeper, MINE, 1, _SOON_MS) as run:
        with bench.check("A new group begins with the oldest message, and writes each payload as a line", paper.PULL):
            _expect_lines(zookeeper, run, b"a-one", b"a-two", b"a-three", b"b-one")
        with bench.check("The messages of a partition come in order", paper.ORDER):
            lines = [line for line in run.output().splitlines() if line.startswith(b"a-")]
            if lines != [b"a-one", b"a-two", b"a-three"]:
                raise WrongError(f"The lines came in another order: {b', '.join(lines).decode()}.")
        with bench.check("The offset behind the last message is committed", paper.OFFSET_REGISTRY):
            _expect_offset(zookeeper, run, "0-0", 47)
            _expect_offset(zookeeper, run, "0-1", 15)
            expect_node(zookeeper, offset_path("0-0"), b"47", is_ephemeral=False)
        with bench.check("A new message is written, and its offset is committed", paper.OFFSET_REGISTRY):
            broker.append(1, b"b-two")
            _expect_lines(zookeeper, run, b"a-one", b"a-two", b"a-three", b"b-one", b"b-two")
            _expect_offset(zookeeper, run, "0-1", 30)
        with bench.check("An offset that was not moved is not committed again", paper.OFFSET_REGISTRY):
            versions = [_version(zookeeper, partition) for partition in ("0-0", "0-1")]
            zookeeper.stays(
                lambda: [_version(zookeeper, partition) for partition in ("0-0", "0-1")] == versions,
                lambda: "Your program writes an offset again, though it has consumed nothing.",
                _WATCHED_S,
            )
        run.stop()


def next_run(bench: Bench, zookeeper: Registries, broker: _Broker) -> None:
    """Try a second run, with commits only at its end."""
    broker.append(0, b"a-four")
    before = _version(zookeeper, "0-1")
    with started(bench.program, zookeeper, MINE, 1, _NEVER_MS) as run:
        with bench.check("The next run begins at the committed offset", paper.AT_LEAST_ONCE):
            _expect_lines(zookeeper, run, b"a-four")
        with bench.check("A new owner writes the offset once, before it consumes", paper.OFFSET_REGISTRY):
            zookeeper.wait(
                lambda: _version(zookeeper, "0-1") > before,
                lambda: f"{offset_path('0-1')} has still version {before}: your program did not write it.",
                run,
            )
            expect_node(zookeeper, offset_path("0-1"), b"30", is_ephemeral=False)
        with bench.check(f"With commit-ms={_NEVER_MS}, nothing else is committed", paper.OFFSET_REGISTRY):
            expect_node(zookeeper, offset_path("0-0"), b"47", is_ephemeral=False)
        with bench.check("After SIGTERM, the program commits what it has consumed", paper.OFFSET_REGISTRY):
            run.stop()
            expect_node(zookeeper, offset_path("0-0"), b"63", is_ephemeral=False)
    zookeeper.put(offset_path("0-1"), "99999")
    with started(bench.program, zookeeper, MINE, 1, _SOON_MS) as run:
        title = "An offset that the broker does not have is replaced by the beginning"
        with bench.check(title, paper.RETENTION):
            _expect_lines(zookeeper, run, b"b-one", b"b-two")
            _expect_offset(zookeeper, run, "0-1", 30)
        run.stop()


def fence(bench: Bench, zookeeper: Registries, session: Session, broker: _Broker) -> None:
    """Try commits while others write the same offset."""
    before = _version(zookeeper, "0-0"), _version(zookeeper, "0-1")
    with started(bench.program, zookeeper, MINE, 1, _SOON_MS) as run:
        zookeeper.expect_owners({"0-0": f"{MINE}-0", "0-1": f"{MINE}-0"}, run, 10)
        zookeeper.wait(
            lambda: _version(zookeeper, "0-0") > before[0] and _version(zookeeper, "0-1") > before[1],
            lambda: "Your program owns the partitions, but did not write their offsets.",
            run,
        )
        with bench.check("The owner commits also when another has moved its offset", paper.OFFSET_REGISTRY):
            zookeeper.put(offset_path("0-0"), "0")
            broker.append(0, b"a-five")
            _expect_offset(zookeeper, run, "0-0", 79)
        with bench.check("A former owner cannot overwrite the offset of the next one", paper.UNIT):
            session.delete(owner_path("0-0"))
            session.create(owner_path("0-0"), _OTHER)
            zookeeper.put(offset_path("0-0"), "16")
            broker.append(0, b"a-six")
            _stays(zookeeper, "0-0", "16")
        with bench.check("A former owner leaves the node of the next one alone", paper.OWNERSHIP):
            expect_node(zookeeper, owner_path("0-0"), _OTHER.encode(), is_ephemeral=True)
        with bench.check("It still commits what it owns", paper.OFFSET_REGISTRY):
            broker.append(1, b"b-three")
            _expect_offset(zookeeper, run, "0-1", 47)
        with bench.check("Nor does it overwrite the offset when it ends", paper.UNIT):
            run.stop()
            _stays(zookeeper, "0-0", "16")
            expect_node(zookeeper, owner_path("0-0"), _OTHER.encode(), is_ephemeral=True)


def _stays(zookeeper: Registries, partition: str, wanted: str) -> None:
    def found() -> str:
        node = zookeeper.offset(partition)
        return "" if node is None else node[0].decode("utf-8", "replace")

    zookeeper.stays(
        lambda: found() == wanted,
        lambda: f"The next owner has committed {wanted}. Your program has overwritten it with {found()}.",
        _WATCHED_S,
    )


def _version(zookeeper: Registries, partition: str) -> int:
    node = zookeeper.offset(partition)
    return -1 if node is None else int(node[1].version)
