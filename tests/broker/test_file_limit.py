"""How the files that a process may open are shared out."""

from __future__ import annotations

import resource

import pytest

from kafka2011.broker.connections.file_limit import MAX_CONNECTIONS, log_limit, max_connections


@pytest.mark.parametrize(
    ("files", "connections", "logs"),
    [(64, 32, 16), (512, 256, 192), (1024, 512, 384), (1024, 100, 796), (131_072, 65_536, 65_408), (16, 16, 0)],
)
def test_connections_logs_and_a_reserve_together_are_the_limit(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: int, logs: int
) -> None:
    """So none of them runs out because of the others; fewer connections leave more to logs."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert max_connections() >= connections
    limit = log_limit(connections)
    assert limit is not None
    assert limit.max_logs == logs
    assert f"may hold {files} files open, of which {connections} are for connections" in limit.why


def test_without_a_limit_on_files_logs_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert max_connections() == MAX_CONNECTIONS
    assert log_limit(MAX_CONNECTIONS) is None
