"""The audit's verdict as the page gets it, and what it says where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kafka2011.audit.compare import TierCount, WindowAccount
from kafka2011.audit.run import Outcome
from kafka2011.audit.scan import Unknown
from kafka2011.audit.verdict import Verdict
from kafka2011.errors import KafkaError
from kafka2011.ui import pipeline
from kafka2011.ui.pipeline import PipelineReads, as_document
from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.nodes import Nodes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kafka2011.ui.sampler import Sampler
    from zk.client import ZkClient

HOUR_MS = 3_600_000
GOOD = WindowAccount("views", 0, (TierCount("producer", 10, 10, 0, 0), TierCount("live", 10, 10, 0, 0)))
BAD = WindowAccount("views", HOUR_MS, (TierCount("producer", 10, 10, 0, 0), TierCount("live", 7, 6, 4, 0, 4)))


def test_a_verdict_becomes_days_tiers_gaps_and_doubts() -> None:
    """A tier's sums, and the end of the newest window that it has counted in."""
    verdict = Verdict([GOOD, BAD], [BAD], [("clicks", Unknown(None, "silence"))], 0, HOUR_MS)
    found = as_document(Outcome(verdict, 3, HOUR_MS, 0), 5 * HOUR_MS)
    assert found["tiers"] == [
        {"topic": "views", "tier": "producer", "counted": 20, "missing": 0, "until_ms": 2 * HOUR_MS},
        {"topic": "views", "tier": "live", "counted": 16, "missing": 4, "until_ms": 2 * HOUR_MS},
    ]
    assert found["gaps"] == [{"topic": "views", "start_ms": HOUR_MS, "tier": "live", "missing": 4}]
    assert found["doubts"] == [{"topic": "clicks", "since_ms": None, "why": "silence"}]
    assert [(each["day"], each["verdict"]) for each in found["days"]] == [("1970-01-01", "gap")]
    assert found["note"].startswith("Only tiers and clusters that have reported can be judged")
    assert (found["open_windows"], found["settled_ms"]) == (3, HOUR_MS)


class _Sizes:
    def size_of(self, topic: str) -> int:
        return 2**40


def reads(client: ZkClientInMemory, warehouse: str = "") -> PipelineReads:
    return PipelineReads(cast("Sampler", _Sizes()), cast("ZkClient", client), warehouse)


def test_where_there_is_nothing_it_is_said() -> None:
    """No audit and no warehouse are no errors; an audit that is too large to read is one, and so is a bad directory."""
    client = ZkClientInMemory()
    found = reads(client).pipeline({})
    assert (found["audit"], found["loads"]) == ({"is_there": False}, {"is_there": False})
    Nodes(cast("ZkClient", client)).ensure_persistent(paths.topic("audit"))
    found = reads(client, "gopher://nowhere").pipeline({})
    assert "too much to read here" in found["audit"]["error"]
    assert found["loads"]["error"]


def test_it_is_read_at_most_once_a_minute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However many browsers ask; an error of a package that is missing names the extra."""
    asked: list[int] = []

    def audit(_self: PipelineReads, now_ms: int) -> dict[str, Any]:
        asked.append(now_ms)
        if len(asked) > 1:
            raise KafkaError("again")
        raise ModuleNotFoundError("No module named 'fastavro'", name="fastavro")

    monkeypatch.setattr(PipelineReads, "_audit", audit)
    each = reads(ZkClientInMemory(), str(tmp_path))
    assert "pipeline" in each.pipeline({})["audit"]["error"]
    each.pipeline({})
    assert len(asked) == 1
    monkeypatch.setattr(pipeline, "_AGAIN_S", -1.0)
    assert each.pipeline({})["audit"] == {"error": "again"}


def test_an_unexpected_error_in_one_half_leaves_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of libraries for tables are shown in place of the tables."""

    def broken(_self: PipelineReads) -> dict[str, Any]:
        raise RuntimeError("no such column")

    monkeypatch.setattr(PipelineReads, "_loads", broken)
    found = reads(ZkClientInMemory()).pipeline({})
    assert found["audit"] == {"is_there": False}
    assert found["loads"] == {"error": "internal error: RuntimeError: no such column"}
