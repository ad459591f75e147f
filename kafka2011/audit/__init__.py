"""The audit: each tier of a pipeline counts its events by window, and the counts are compared (paper, section 4).

Names are imported when they are first used, so `import kafka2011.audit` needs no extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.lazy_names import lazily

if TYPE_CHECKING:
    from kafka2011.audit.compare import Ledger
    from kafka2011.audit.complete import Complete, watermark
    from kafka2011.audit.consumer import AuditedConsumer
    from kafka2011.audit.counter import AuditCounter
    from kafka2011.audit.publishing import open_counter
    from kafka2011.audit.reader import AuditReader
    from kafka2011.audit.received import ReceivedReports
    from kafka2011.audit.scan import AuditScan, Unknown

__all__ = [
    "AuditCounter",
    "AuditReader",
    "AuditScan",
    "AuditedConsumer",
    "Complete",
    "Ledger",
    "ReceivedReports",
    "Unknown",
    "open_counter",
    "watermark",
]

__getattr__ = lazily(
    __name__,
    {
        "kafka2011.audit.compare": ("Ledger",),
        "kafka2011.audit.complete": (
            "Complete",
            "watermark",
        ),
        "kafka2011.audit.consumer": ("AuditedConsumer",),
        "kafka2011.audit.counter": ("AuditCounter",),
        "kafka2011.audit.publishing": ("open_counter",),
        "kafka2011.audit.reader": ("AuditReader",),
        "kafka2011.audit.received": ("ReceivedReports",),
        "kafka2011.audit.scan": (
            "AuditScan",
            "Unknown",
        ),
    },
)
