"""Samples are taken of processes that have begun."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from integration.chaos.sampler import Sampler

if TYPE_CHECKING:
    from integration.chaos.cluster import Cluster


def test_a_client_that_has_not_begun_is_left_out() -> None:
    """While it waits for ZooKeeper it needs less than ever after, which would look like growth in the end."""
    process = SimpleNamespace(pid=os.getpid(), running=True)
    client = SimpleNamespace(name="keyed.1", process=process, has_begun=False)
    nothing = SimpleNamespace(servers={})
    sampler = Sampler(cast("Cluster", SimpleNamespace(ensemble=nothing, brokers={}, gateways=[], clients=[client])))
    sampler.take()
    assert not sampler.samples
    client.has_begun = True
    sampler.take()
    assert [sample.name for sample in sampler.samples] == ["keyed.1"]
