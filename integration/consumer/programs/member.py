"""A member of a group in a process of its own: `member.py RECEIPTS TOPIC PAUSE_MS CONFIG`.

Every message is written down, with the time at which it was handed out, before the next one is asked for. SIGTERM
leaves the group in order.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

from kafka2011.consumer.connector import ConsumerConnector


def main(receipts: str, topic: str, pause_ms: str, config: str) -> None:
    """Read one stream for ever."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Path(receipts).open("w", buffering=1) as file, ConsumerConnector(json.loads(config)) as consumer:
        [stream] = consumer.create_message_streams({topic: 1})[topic]
        for message in stream:
            stamp = time.clock_gettime(time.CLOCK_BOOTTIME)
            fields = (stamp, message.broker_id, message.partition, message.offset, message.payload.decode())
            file.write(" ".join(map(str, fields)) + "\n")
            time.sleep(float(pause_ms) / 1000)


main(*sys.argv[1:])
