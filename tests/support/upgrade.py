"""What version 0.1.0 has left on disk and in ZooKeeper, as it wrote it: `tests/upgrade/0.1.0`.

A cluster of its with one broker and two partitions got messages, plain and in sets of both codecs, events of a schema,
and lines from its collector; a group read some; Spark's stream read all. Each message is in `messages.json` by its
partition: its offset, the next one, and its payload in base 64.
"""

from __future__ import annotations

import base64
import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.local_cluster import LocalBroker
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT = Path(__file__).parents[1] / "upgrade" / "0.1.0"


def messages() -> dict[str, list[tuple[int, int, bytes]]]:
    """Return what is in each partition, such as `views-0`: offset, next offset, payload."""
    found = json.loads((LEFT / "messages.json").read_text())
    return {
        where: [(start, end, base64.b64decode(payload)) for start, end, payload in every]
        for where, every in found.items()
    }


def restore_znodes(zk_connect: str) -> dict[str, str | None]:
    """Make the znodes that were left, with their data, and return them."""
    znodes: dict[str, str | None] = json.loads((LEFT / "znodes.json").read_text())
    with connect(zk_connect) as client:
        client.ensure_path("/")
        for path, data in znodes.items():
            if path != "/":
                client.create(path, None if data is None else data.encode())
    return znodes


@contextmanager
def upgraded(directory: Path, zk_connect: str, *, is_torn: bool = False) -> Iterator[LocalBroker]:
    """Run today's broker on what was left; torn: as if 0.1.0 had been killed while it wrote a message."""
    shutil.copytree(LEFT / "logs", directory / "logs")
    if is_torn:
        (directory / "logs" / ".kafka_cleanshutdown").unlink()
        with (directory / "logs" / "views-1" / f"{0:020}.kafka").open("ab") as segment:
            segment.write(bytes.fromhex("0000002a 01 00 12345678") + b"half")
    restore_znodes(zk_connect)
    properties = {"zk.connect": zk_connect, "num.partitions": "2", "log.flush.interval": "1", "hostname": "127.0.0.1"}
    with LocalBroker(0, directory, properties) as broker:
        yield broker
