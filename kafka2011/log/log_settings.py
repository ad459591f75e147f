"""How the logs of one topic are kept: its own settings where there are any, else the broker's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kafka2011.log.retention import NO_LIMIT

if TYPE_CHECKING:
    from kafka2011.config import BrokerConfig

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How one topic's logs are kept."""

    max_segment_bytes: int = 1024 * 1024 * 1024  # a segment strictly larger than this is followed by a new one
    roll_ms: float = 168 * _HOUR_MS  # as is one that got its first append longer ago than this
    retention_ms: float = 168 * _HOUR_MS  # segments last written longer ago than this are deleted
    retention_bytes: int = NO_LIMIT  # the oldest are deleted while at least this much remains; -1: never
    flush_interval: int = 500  # messages, those inside compressed sets counted
    flush_interval_ms: float = 3000  # by the timer, if fewer messages came

    @classmethod
    def of(cls, config: BrokerConfig, topic: str) -> Self:
        """Take those of a topic out of a broker's settings."""
        return cls(
            max_segment_bytes=config.topic_log_file_size.get(topic, config.log_file_size),
            roll_ms=config.topic_log_roll_hours.get(topic, config.log_roll_hours) * _HOUR_MS,
            retention_ms=config.topic_log_retention_hours.get(topic, config.log_retention_hours) * _HOUR_MS,
            retention_bytes=config.topic_log_retention_size.get(topic, config.log_retention_size),
            flush_interval=config.log_flush_interval,
            flush_interval_ms=config.topic_flush_intervals_ms.get(topic, config.log_default_flush_interval_ms),
        )
