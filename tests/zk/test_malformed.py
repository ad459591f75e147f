"""Malformed znodes of others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zk.errors import MalformedNode
from zk.malformed import MalformedNodes

if TYPE_CHECKING:
    import pytest


def test_a_malformed_znode_is_counted_always_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A watcher that reads again and again must not fill the log; a changed text is news."""
    nodes = MalformedNodes(logging.getLogger("test"))
    for text in ("x", "x", "y", "y"):
        nodes.skip(MalformedNode("/brokers/ids/0", text, "not creator:host:port"))
    assert nodes.count == 4
    assert [record.message[-1] for record in caplog.records] == ["x", "y"]


def test_what_is_remembered_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of malformed nodes cost no more memory than a thousand."""
    nodes = MalformedNodes(logging.getLogger("test"))
    for number in range(3000):
        nodes.skip(MalformedNode(f"/brokers/ids/{number}", "x", "bad"))
    assert nodes.count == 3000
    assert len(nodes.texts) == 1000
