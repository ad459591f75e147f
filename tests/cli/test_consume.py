"""`kafka2011 consume`, without a cluster."""

from __future__ import annotations

import pytest

from kafka2011.cli import consume
from zk.errors import NotConnected


def test_zookeeper_away_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of its own is not removed then, which would take as long again."""
    connects: list[str] = []

    def away(zk_connect: str) -> None:
        connects.append(zk_connect)
        raise NotConnected("away")

    monkeypatch.setattr(consume, "open_session", away)
    with pytest.raises(NotConnected):
        consume.command.main(["--zookeeper", "h:1", "--topic", "t"], standalone_mode=False)
    assert connects == ["h:1"]
