"""A broker's flushes of the logs that ask for one: none is forgotten, whenever it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gevent

from kafka2011.broker.server import FLUSHERS, KafkaServer
from kafka2011.config import BrokerConfig
from kafka2011.log.log_manager import LogManager

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from kafka2011.log.log import Log


def test_a_log_that_asks_when_all_flushers_have_just_ended_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are done, though gevent has not told anybody yet."""
    flushed: list[Log] = []

    def flush(_: LogManager, logs: Sequence[Log]) -> None:
        flushed.extend(logs)

    monkeypatch.setattr(LogManager, "flush", flush)
    with LogManager(tmp_path / "others", num_partitions=FLUSHERS + 1) as logs:
        every = [logs.get_or_create("t", number) for number in range(FLUSHERS + 1)]
        server = KafkaServer(BrokerConfig(brokerid=0, log_dir=tmp_path / "logs", enable_zookeeper=False, port=0))
        for log in every[:-1]:
            server._request_flush(log)
        gevent.spawn(server._request_flush, every[-1])  # runs right after them
        gevent.sleep(0.01)
        assert flushed == every
