"""What was acknowledged is there, once and in order, after a gateway has died in the middle of appends."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from integration.gateway import kills

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from zk.local_zookeeper import LocalZooKeeper


def test_a_gateway_that_dies_between_append_and_answer_loses_and_doubles_nothing(
    zookeeper: LocalZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one goes on, and then one that has no files; see kills.py for all faults."""
    monkeypatch.setattr(kills, "SESSION_MS", 1000)
    monkeypatch.setattr(kills, "DOWN_S", (0.0,))
    monkeypatch.setattr(kills, "MOST_GAP_S", kills.LEAST_GAP_S)
    faults = ["within the append", "sent", "found"]
    account = kills.run(faults, 10**6, random.Random(1), tmp_path, f"{zookeeper.connect_string}/kills", 1)
    assert account.problems == []
    assert [account.faults[f"kill a gateway, {point}"] for point in faults] == [1, 1, 1]
    assert len(account.offsets) > 100
    assert account.confirmed_07
