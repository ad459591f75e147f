"""Copying schemas to the target, over znodes in memory."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.types import PAGE_VIEW
from kafka2011.mirror import schema_copy
from kafka2011.mirror.schema_copy import SchemaCopy
from tests.support.zk_in_memory import ZkClientInMemory

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


@pytest.mark.parametrize("data", [b"{not a schema", b"\xff"])
def test_a_znode_that_is_no_schema_does_not_stop_its_topic(
    data: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is forwarded, and the log says what is not copied; other topics have their schemas copied."""
    clients: dict[str, Any] = {"source": ZkClientInMemory(), "target": ZkClientInMemory()}

    def connect(zk_connect: str) -> AbstractContextManager[Any]:
        return nullcontext(clients[zk_connect])

    monkeypatch.setattr(schema_copy, "connect", connect)
    for topic in ("bad", "views"):
        SchemaRegistry(clients["source"]).register(topic, PAGE_VIEW)
    clients["source"].tree["/schemas/topics/bad/1"].data = data
    stop = threading.Event()
    ended = threading.Timer(10, stop.set)  # or a copy that goes on trying would wait for ever
    ended.start()
    with SchemaCopy("target", stop) as copy:
        for topic in ("bad", "views"):
            copy.on_topic("source", topic)
        assert not stop.is_set()
    ended.cancel()
    assert SchemaRegistry(clients["target"]).newest("views") == PAGE_VIEW
    assert "schemas of bad at source are not copied" in caplog.text
