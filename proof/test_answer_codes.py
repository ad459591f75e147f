"""Fills the table of what each client does with each error code: proof/answer_codes/table.json.

What stands in the table is not measured again: delete a row to have it measured anew.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from itertools import count
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011 import SyncProducer
from kafka2011.gateway.protocol.answer_codes import LEVELS
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api
from kafka2011.local_cluster import LocalCluster, LocalGateway
from proof.answer_codes.clients import CLIENTS
from proof.answer_codes.gateway import RESPONSE, Fault
from proof.answer_codes.table import Table
from scripts.answer_codes import RETRIES, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proof.answer_codes.clients import Client

ASKED_S = 12.0
ENDS_S = 30.0
WORKERS = 2
PAUSE_S = 0.05

E = ErrorCode
SCENES = {
    Api.PRODUCE: "produce",
    Api.INIT_PRODUCER_ID: "produce",
    Api.OFFSET_COMMIT: "commit",
}
TRIED = (
    Api.METADATA,
    Api.PRODUCE,
    Api.FETCH,
    Api.LIST_OFFSETS,
    Api.FIND_COORDINATOR,
    Api.JOIN_GROUP,
    Api.SYNC_GROUP,
    Api.HEARTBEAT,
    Api.OFFSET_COMMIT,
    Api.OFFSET_FETCH,
    Api.INIT_PRODUCER_ID,
)
UNREADY = (E.UNKNOWN_SERVER_ERROR, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE)
FORBIDDEN = {
    (Api.FETCH, "partitions"): (E.UNKNOWN_SERVER_ERROR, E.LEADER_NOT_AVAILABLE, E.REQUEST_TIMED_OUT),
    (Api.PRODUCE, "partition_responses"): (E.UNKNOWN_SERVER_ERROR, E.LEADER_NOT_AVAILABLE, E.KAFKA_STORAGE_ERROR),
    (Api.LIST_OFFSETS, "partitions"): (E.UNKNOWN_SERVER_ERROR, E.LEADER_NOT_AVAILABLE),
    (Api.OFFSET_COMMIT, "partitions"): (E.UNKNOWN_SERVER_ERROR, E.OFFSET_OUT_OF_RANGE),
    (Api.OFFSET_FETCH, "partitions"): (E.UNKNOWN_SERVER_ERROR,),
    (Api.JOIN_GROUP, ""): (*UNREADY, E.REBALANCE_IN_PROGRESS),
    (Api.SYNC_GROUP, ""): UNREADY,
    (Api.HEARTBEAT, ""): UNREADY,
    (Api.OFFSET_FETCH, ""): (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR),
    (Api.FIND_COORDINATOR, ""): (E.UNKNOWN_SERVER_ERROR, E.COORDINATOR_LOAD_IN_PROGRESS),
    (Api.INIT_PRODUCER_ID, ""): (E.UNKNOWN_SERVER_ERROR, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR),
}
"""Codes that the gateway does not answer there, to be seen why."""

pytestmark = pytest.mark.timeout(6 * 3600)


def rows() -> Iterator[tuple[str, Fault]]:
    """Yield all ways of a driver and faults that are tried."""
    for (api, level), known in LEVELS.items():
        if api not in TRIED or level in {"coordinators", "groups"}:
            continue
        codes = [known.passing, *sorted(known.others), *FORBIDDEN.get((api, level), ())]
        for way in ("produce", "consume") if api is Api.METADATA else (SCENES.get(api, "consume"),):
            for code in dict.fromkeys(codes):
                yield way, Fault(api, level or RESPONSE, code)


class Lab:
    """A broker, a faulty gateway, and what is run at them, one after the other."""

    def __init__(self, directory: Path, stack: ExitStack, prefix: str) -> None:
        self._directory = directory
        self._prefix = prefix
        self._names = count()
        self._cluster = stack.enter_context(
            LocalCluster(
                1,
                directory=directory / "cluster",
                properties={"num.partitions": 1, "log.default.flush.interval.ms": 50},
            )
        )
        (directory / "faults").mkdir()
        gateway = LocalGateway(
            directory / "gateway",
            {"zk.connect": self._cluster.zk_connect, "port": "0"},
            [sys.executable, "-m", "proof.answer_codes.gateway", str(directory / "faults")],
        )
        self._servers = stack.enter_context(gateway)
        self._fault = directory / "faults" / "fault"
        self._answered = directory / "faults" / "answered"

    def result(self, client: Client, way: str, fault: Fault) -> tuple[str, int]:
        """Return what the client did, and the version of its request; -1 if it never sent one."""
        name = f"{self._prefix}-{next(self._names)}"
        self._send(name, b"first")
        self._answered.unlink(missing_ok=True)
        self._fault.write_text(str(fault), "utf-8")
        output = self._directory / f"{name}.out"
        servers = f"{self._servers.host}:{self._servers.port}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*client.command(), servers, way, name, f"g{name}"], stdout=file, stderr=subprocess.STDOUT
            )
            try:
                return self._watched(process, name, output)
            finally:
                process.kill()
                process.wait()
                self._fault.unlink(missing_ok=True)

    def _watched(self, process: subprocess.Popen[bytes], name: str, output: Path) -> tuple[str, int]:
        ends_s = time.monotonic() + ASKED_S
        while not self._answered.exists() and process.poll() is None and time.monotonic() < ends_s:
            time.sleep(PAUSE_S)
        version = int(self._answered.read_text("utf-8")) if self._answered.exists() else -1
        self._send(name, b"last")
        try:
            status = process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            status = 1
        told = [line for line in output.read_text("utf-8", "replace").splitlines() if line.startswith("told ")]
        if version < 0:
            return "is not sent", -1
        if status != 0:
            return "ends", version
        return ("tells" if told else RETRIES), version

    def _send(self, topic: str, value: bytes) -> None:
        broker = self._cluster.brokers[0]
        with SyncProducer(broker.host, broker.port) as producer:
            producer.send(topic, [value])


def test_each_client_and_each_code(tmp_path: Path) -> None:
    """Measure what is not in the table yet."""
    clients = [client for client in CLIENTS if not client.missing()]
    for client in clients:
        client.build()
    table = Table.read(TABLE)
    wanted = [
        (way, fault, client)
        for way, fault in rows()
        for client in clients
        if table.result(way, fault, client.name) is None
    ]
    queue: Queue[Any] = Queue()
    for each in wanted:
        queue.put(each)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        directory = tmp_path / str(number)
        directory.mkdir()
        try:
            with ExitStack() as stack:
                lab = Lab(directory, stack, f"w{number}")
                with suppress(Empty):
                    while True:
                        way, fault, client = queue.get_nowait()
                        table.note(way, fault, client.name, *lab.result(client, way, fault))
                        table.write(TABLE)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures
    missing = [str(fault) for way, fault in rows() for client in clients if not table.result(way, fault, client.name)]
    assert not missing
