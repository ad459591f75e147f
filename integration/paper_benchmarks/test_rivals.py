"""Each rival that is installed: started, driven by each of its clients, counted, stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from paper_benchmarks.clients.measure import consume, produce
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES
from paper_benchmarks.measuring.usage import stored_in
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.kinds import KINDS

if TYPE_CHECKING:
    from pathlib import Path

MESSAGES = 2000


@pytest.mark.parametrize("name", [name for name in KINDS if not name.startswith(OWN)])
def test_every_client_sends_and_reads_every_message(name: str, tmp_path: Path) -> None:
    """And nothing of the server is left after it, neither process nor file."""
    kind = KINDS[name]
    if reason := kind.missing():
        pytest.skip(reason)
    with kind.start(tmp_path) as system:
        family = [psutil.Process(pid) for pid in system.pids()]
        assert system.version[0].isdigit()
        assert "durability" in system.settings
        producers, consumers = kind.producers(), kind.consumers()
        for number in range(max(len(producers), len(consumers))):
            producer, consumer = producers[number % len(producers)], consumers[number % len(consumers)]
            sent = produce(kind, system, producer.client, MESSAGES, batch=producer.batch)
            assert sent.landed >= MESSAGES
            assert sent.server is not None
            assert sent.server.cpu_s > 0
            read = consume(kind, system, consumer.client, sent.topic, sent.landed)
            assert read.points[-1][0] == sent.landed
        assert system.directory is not None
        assert stored_in(system.directory) > MESSAGES * PAYLOAD_BYTES
        family += [psutil.Process(pid) for pid in system.pids()]
    assert not [process for process in family if process.is_running()]
    assert not list(tmp_path.iterdir())
