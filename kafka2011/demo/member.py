"""One member of a consumer group, in its own process: `python -m kafka2011.demo.member`.

It writes each receipt before it asks for the next message, so the file holds exactly what was delivered, even when the
process is killed with -9. SIGTERM ends it in order.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading

from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.demo.records import Receipt

logger = logging.getLogger(__name__)


def main(arguments: list[str]) -> None:
    """Consume `topic` with the settings in a JSON object and append receipts to a file, until SIGTERM."""
    topic, settings, receipts_path = arguments
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    receipts_fd = os.open(receipts_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    connector = ConsumerConnector(json.loads(settings))
    name = connector.consumer_id
    [stream] = connector.create_message_streams({topic: 1})[topic]

    def leave() -> None:
        connector.shutdown()

    # A signal handler must not wait for locks that the interrupted code may hold, so a thread shuts down.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=leave).start())
    for message in stream:
        os.write(receipts_fd, Receipt.of(message, name).to_line())
    connector.shutdown()
    logger.info("counts %s", json.dumps(connector.counts()))


if __name__ == "__main__":
    main(sys.argv[1:])
