"""The console goes on reading the cluster after an error."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.cluster_snapshot import ClusterSnapshot
from kafka2011.ui.sampler import Focus, Sampler, Viewer
from tests.support.waiting import eventually
from tests.support.zk_in_memory import ZkClientInMemory

if TYPE_CHECKING:
    import pytest

    from zk.client import ZkClient


def test_an_unexpected_error_does_not_end_the_reading(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The page says what is wrong, the log has a traceback, and the next reading is shown."""
    fails = threading.Event()
    fails.set()

    def read(_self: ClusterReader, *_: Any) -> ClusterSnapshot:
        if fails.is_set():
            raise RuntimeError("a defect")
        return ClusterSnapshot()

    monkeypatch.setattr(ClusterReader, "read", read)
    with Sampler(cast("ZkClient", ZkClientInMemory())) as sampler:
        sampler.add(Viewer(Focus(), lambda: None))
        eventually(lambda: "RuntimeError: a defect" in sampler.published.trouble, what="the error on the page")
        fails.clear()
        eventually(lambda: sampler.published.trouble == "", what="a page without an error")
    assert "an unexpected error while the cluster was read" in caplog.text
