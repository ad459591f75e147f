"""Copies topics into another cluster, and publishes stored messages again (paper, section 4).

Sets of messages are copied as the bytes that were stored, and compressed sets are never opened. Names are imported when
they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.lazy_names import lazily

if TYPE_CHECKING:
    from kafka2011.mirror.forwarder import ForwardCounts, MirrorError
    from kafka2011.mirror.mirror import Mirror, SourceReport
    from kafka2011.mirror.source import source_config
    from kafka2011.mirror.target import target_config

__all__ = [
    "ForwardCounts",
    "Mirror",
    "MirrorError",
    "SourceReport",
    "source_config",
    "target_config",
]

__getattr__ = lazily(
    __name__,
    {
        "kafka2011.mirror.forwarder": (
            "ForwardCounts",
            "MirrorError",
        ),
        "kafka2011.mirror.mirror": (
            "Mirror",
            "SourceReport",
        ),
        "kafka2011.mirror.source": ("source_config",),
        "kafka2011.mirror.target": ("target_config",),
    },
)
