"""Tests of several processes that request the creation of one topic: one succeeds, and the others get an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.errors import NodeExists
from zk.nodes import Nodes
from zk.requests import RequestRegistry

if TYPE_CHECKING:
    from zk.client import ZkClient


@pytest.mark.parametrize("moment", range(1, 12))
def test_a_topic_that_is_being_created_is_not_created_again(moment: int) -> None:
    """The broker does what the first one has requested right before the second one's call number `moment`."""
    memory = ZkClientInMemory()
    client = cast("ZkClient", memory)
    registry, nodes = RequestRegistry(client), Nodes(client)
    nodes.ensure_persistent(paths.requests(0))
    registry.begin_creation("views", {0: 2}, [0])
    calls = 0

    def do_what_was_requested(_call: str, _path: str) -> None:
        nonlocal calls
        calls += 1
        if calls == moment:
            memory.before = lambda _call, _path: None
            nodes.create(paths.partition_count("views", 0), b"2")
            nodes.delete(paths.request(0, "views"))

    memory.before = do_what_was_requested
    with pytest.raises(NodeExists):
        registry.begin_creation("views", {0: 1}, [0])
