"""Reports: Spark jobs that make small tables, and a page, from the events of topics (paper, section 4).

Names are imported when they are first used: they need PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.lazy_names import lazily

if TYPE_CHECKING:
    from kafka2011.reports.broker_events import decoded
    from kafka2011.reports.event_frames import dated
    from kafka2011.reports.jobs.page_views import page_views

__all__ = [
    "dated",
    "decoded",
    "page_views",
]

__getattr__ = lazily(
    __name__,
    {
        "kafka2011.reports.broker_events": ("decoded",),
        "kafka2011.reports.event_frames": ("dated",),
        "kafka2011.reports.jobs.page_views": ("page_views",),
    },
)
