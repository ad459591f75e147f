"""A process that holds librdkafka's mock broker, and writes its address to a file: `mock_cluster FILE`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from confluent_kafka import Producer

_TIMEOUT_S = 30


def main(file: Path) -> None:
    """Keep the broker until told to end. It listens on a port of its choice, for other processes too."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    holder = Producer({"test.mock.num.brokers": 1})
    [broker] = holder.list_topics(timeout=_TIMEOUT_S).brokers.values()
    unfinished = file.with_suffix(".part")
    unfinished.write_text(f"{broker.host}:{broker.port}", encoding="utf-8")
    unfinished.rename(file)
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
