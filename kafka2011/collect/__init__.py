"""The log collector: publishes lines of files, standard input and sockets, each at least once.

Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.lazy_names import lazily

if TYPE_CHECKING:
    from kafka2011.collect.access_log import page_view
    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.log_handler import KafkaLogHandler
    from kafka2011.collect.options import CollectOptions
    from kafka2011.collect.run import DEFAULTS, collect

__all__ = [
    "DEFAULTS",
    "CollectCounts",
    "CollectOptions",
    "KafkaLogHandler",
    "collect",
    "page_view",
]

__getattr__ = lazily(
    __name__,
    {
        "kafka2011.collect.access_log": ("page_view",),
        "kafka2011.collect.counts": ("CollectCounts",),
        "kafka2011.collect.log_handler": ("KafkaLogHandler",),
        "kafka2011.collect.options": ("CollectOptions",),
        "kafka2011.collect.run": (
            "DEFAULTS",
            "collect",
        ),
    },
)
