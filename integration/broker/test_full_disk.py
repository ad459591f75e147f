"""A broker on a disk without room: it stops, and starts again."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kafka2011.errors import BrokerConnectionError
from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import MultiFetchRequest, ProduceRequest, encode_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafka2011.local_cluster import LocalBroker
    from kafka2011.message.message_set import Message
    from kafka2011.wire.connection import BrokerConnection

    NewBroker = Callable[..., LocalBroker]
    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    ReadAll = Callable[..., list[Message]]

BARRIER = encode_request(MultiFetchRequest(()))
DISK_BYTES = 3_000_000
PAYLOAD = os.urandom(7001)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of a few megabytes."""
    directory = tmp_path / "small"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"nothing may be mounted here: {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_a_full_disk(
    new_broker: NewBroker, open_connection: OpenConnection, read_all: ReadAll, small_disk: Path, tmp_path: Path
) -> None:
    """A broker that filled its disk stops with the reason; started again, it serves what it had, torn tail or not."""
    directory = tmp_path / "broker-0"
    directory.mkdir()
    (directory / "logs").symlink_to(small_disk)
    broker = new_broker({"log.flush.interval": 1})
    broker.start()
    connection = open_connection(broker)
    handled = 0
    with suppress(BrokerConnectionError):
        while handled * len(PAYLOAD) < DISK_BYTES:
            connection.send(encode_request(ProduceRequest("views", 0, bytes(MessageSet([PAYLOAD])))))
            connection.request(BARRIER)
            handled += 1
    assert broker.process.wait(30) == 1
    assert b"No space left on device" in broker.output()

    segment = small_disk / "views-0" / f"{0:020}.kafka"
    for torn in (b"", bytes(MessageSet([b"torn"]))[:-2]):
        broker.kill()
        with segment.open("ab") as file:
            file.write(torn)
        (small_disk / "filler").write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize))
        broker.start()
        assert [message.payload for message in read_all(broker, "views")] == [PAYLOAD] * handled
        assert list(small_disk.glob("*/*.cut")) == []
        (small_disk / "filler").unlink()
    assert b"dropped, since the disk has no room for a copy" in broker.output()
