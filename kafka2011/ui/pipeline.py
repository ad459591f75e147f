"""What the audit says of the last two days, tier by tier, and how far tables are loaded; at most once a minute."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from kafka2011.config import SimpleConsumerConfig
from kafka2011.errors import KafkaError, as_failure, missing_extra
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka2011.audit.run import Outcome
    from kafka2011.ui.sampler import Sampler
    from zk.client import ZkClient
    from zk.clock import Clock

MOST_BYTES = 256 * 1024 * 1024
"""A topic `audit` that is larger is for `kafka2011 audit --state`, which goes on where it ended."""
MOST_ROWS = 200
_AGAIN_S = 60.0
_DAY_MS = 86_400_000


class PipelineReads:
    """Answers what the page asks of the pipeline. May be asked by several at once: one of them reads."""

    def __init__(self, sampler: Sampler, client: ZkClient, warehouse: str = "", clock: Clock = SYSTEM_CLOCK) -> None:
        self._sampler = sampler
        self._client = client
        self._warehouse = warehouse
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}
        self._found_s = -_AGAIN_S

    def pipeline(self, _query: Mapping[str, str]) -> dict[str, Any]:
        """Return the audit's verdict and the tables' state, each with why it cannot be had if so."""
        with self._lock:
            if self._clock.monotonic_s() - self._found_s >= _AGAIN_S:
                now_ms = int(self._clock.wall_s() * 1000)
                self._found = {
                    "at_ms": now_ms,
                    "audit": _or_why(lambda: self._audit(now_ms)),
                    "loads": _or_why(self._loads),
                }
                self._found_s = self._clock.monotonic_s()
            return self._found

    def _audit(self, now_ms: int) -> dict[str, Any]:
        from kafka2011.audit.reader import has_audit  # noqa: PLC0415
        from kafka2011.audit.report import AUDIT_TOPIC  # noqa: PLC0415
        from kafka2011.audit.run import Scope, judgeable_until_ms, run  # noqa: PLC0415
        from kafka2011.audit.scan import DEFAULT_RULES  # noqa: PLC0415  # an extra

        if not has_audit(self._client):
            return {"is_there": False}
        size = self._sampler.size_of(AUDIT_TOPIC)
        if size > MOST_BYTES:
            raise KafkaError(
                f"topic {AUDIT_TOPIC} holds {size} bytes, too much to read here: use kafka2011 audit --state"
            )
        from_ms = now_ms // _DAY_MS * _DAY_MS - _DAY_MS
        scope = Scope((), None, from_ms, judgeable_until_ms(DEFAULT_RULES, now_ms), DEFAULT_RULES)
        outcome = run(self._client, SimpleConsumerConfig.from_sources(environ=os.environ), scope)
        return {"is_there": True, "from_ms": from_ms, **as_document(outcome, scope.until_ms)}

    def _loads(self) -> dict[str, Any]:
        if not self._warehouse:
            return {"is_there": False}
        from kafka2011.warehouse.table.status import status_of  # noqa: PLC0415  # an extra

        failed: dict[str, KafkaError] = {}
        tables = [table.to_json() for table in status_of(self._warehouse, (), "", failed)]
        return {"is_there": True, "tables": tables, "failed": {topic: str(why) for topic, why in failed.items()}}


def as_document(outcome: Outcome, until_ms: int) -> dict[str, Any]:
    """Return a verdict for the page: days, tiers with when they counted last, gaps and what is unknown. Pure."""
    from kafka2011.audit.days import by_day  # noqa: PLC0415  # an extra
    from kafka2011.audit.pipeline import UNDECLARED  # noqa: PLC0415

    verdict = outcome.verdict
    tiers: dict[tuple[str, str], dict[str, Any]] = {}
    for account in verdict.accounts:
        for count in account.tiers:
            tier = tiers.setdefault(
                (account.topic, count.tier),
                {"topic": account.topic, "tier": count.tier, "counted": 0, "missing": 0, "until_ms": 0},
            )
            tier["counted"] += count.distinct
            tier["missing"] += count.missing or count.missing_since_first
            if count.total:
                tier["until_ms"] = max(tier["until_ms"], account.start_ms + outcome.window_ms)
    gaps = [
        {
            "topic": account.topic,
            "start_ms": account.start_ms,
            "tier": count.tier,
            "missing": count.missing or count.missing_since_first,
        }
        for account in verdict.gaps
        for count in account.tiers
        if count.has_gap
    ]
    unknowns = [
        {"topic": topic, "since_ms": unknown.since_ms, "why": unknown.why}
        for topic, unknown in verdict.unknowns[:MOST_ROWS]
    ]
    return {
        "note": UNDECLARED,
        "until_ms": until_ms,
        "settled_ms": verdict.settled_ms,
        "open_windows": outcome.open_windows,
        "days": [day.to_json() for day in by_day(verdict, until_ms)][-MOST_ROWS:],
        "tiers": list(tiers.values())[:MOST_ROWS],
        "gaps": gaps[-MOST_ROWS:],
        "doubts": unknowns,
    }


def _or_why(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return read()
    except ImportError as error:
        return {"error": str(missing_extra(error, "pipeline,warehouse"))}
    except OSError as error:
        return {"error": str(error)}
    except BaseException as error:  # noqa: BLE001 (the other half of the page is shown all the same)
        return {"error": str(as_failure(error))}
