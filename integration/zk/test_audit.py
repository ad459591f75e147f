"""The audit's znodes on a real ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zk.audit import AuditNodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient


def test_a_cluster_has_one_id(new_client: Callable[[], ZkClient]) -> None:
    """Whoever asks first makes it up."""
    one, two = AuditNodes(new_client()), AuditNodes(new_client())
    made = one.cluster_id()
    assert made
    assert two.cluster_id() == one.cluster_id() == made


def test_brokers_stay_known_until_they_are_forgotten(new_client: Callable[[], ZkClient]) -> None:
    nodes = AuditNodes(new_client())
    assert nodes.brokers() == set()
    nodes.note_brokers([3, 1])
    nodes.note_brokers([1])
    assert nodes.brokers() == {1, 3}
    nodes.forget_broker(3)
    nodes.forget_broker(7)
    assert nodes.brokers() == {1}
