"""Ports for servers."""

from __future__ import annotations

from zk.ports import free_port


def test_servers_that_start_together_get_different_ports() -> None:
    """A few hundred at random would hold some twice."""
    assert len({free_port() for _ in range(500)}) == 500
