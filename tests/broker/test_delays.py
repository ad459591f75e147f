"""What a connection holds while its answer waits for a quota, in a broker within this process."""

from __future__ import annotations

from pathlib import Path

import gevent
from gevent import socket

from kafka2011.broker.security.quota import FETCH
from kafka2011.broker.server import KafkaServer
from kafka2011.config.broker import BrokerConfig
from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import FetchRequest, FetchWait, MultiFetchRequest, ProduceRequest, encode_request
from tests.support.waiting import eventually
from zk.clock import SYSTEM_CLOCK

SET = bytes(MessageSet([bytes(1000)]))
BARRIER = encode_request(MultiFetchRequest(()))


def open_files(path: Path) -> int:
    """Return how often this process has a file open."""
    found = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(link.exists() and link.resolve() == path for link in found)


def test_an_answer_that_waits_holds_no_file_and_takes_nothing_if_its_client_goes(tmp_path: Path) -> None:
    """What it had taken of the quota is there for the next."""
    quota = tmp_path / "quota.toml"
    quota.write_text("[fetch]\nanonymous = 10\n")
    config = BrokerConfig(
        brokerid=0,
        log_dir=tmp_path / "logs",
        enable_zookeeper=False,
        port=0,
        log_file_size=len(SET),
        log_flush_interval=1,
        quota_file=str(quota),
    )
    with KafkaServer(config) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(2)]
        first, second = clients
        for _ in range(3):  # a segment each
            first.sendall(encode_request(ProduceRequest("views", 0, SET)) + BARRIER)
            assert first.recv(6) == bytes.fromhex("00000002 0000")
        first.sendall(encode_request(FetchRequest("views", 0, 2 * len(SET), len(SET), FetchWait(20_000, 1))))
        received = b""
        while len(received) < 6 + len(SET):  # the first answer comes at once
            received += first.recv(6 + len(SET))
        bucket = server.parts.pipelines.quotas.buckets[FETCH, "anonymous"]  # type: ignore[union-attr]
        second.sendall(encode_request(FetchRequest("views", 0, 0, len(SET))))
        eventually(lambda: bucket.taken_bytes == 2 * len(SET), sleep=gevent.sleep)
        gevent.sleep(0)
        assert open_files(tmp_path / "logs" / "views-0" / f"{0:020d}.kafka") == 0
        owed_s = bucket.wait_s(bucket.taken_bytes, SYSTEM_CLOCK.monotonic_s())
        second.close()
        eventually(
            lambda: bucket.wait_s(bucket.taken_bytes, SYSTEM_CLOCK.monotonic_s()) < owed_s / 2 + 1, sleep=gevent.sleep
        )
        assert server.counts()["throttled_ms_fetch"] > 0
        first.close()
