"""The stages of the lab, in order."""

from __future__ import annotations

from kafka2011.lab.stage import Stage
from kafka2011.lab.stages import (
    s01_messages,
    s02_fetch,
    s03_segments,
    s04_flush,
    s05_recovery,
    s06_retention,
    s07_assignment,
    s08_member,
    s09_offsets,
    s10_producer,
    s11_cluster,
)

STAGES = {
    stage.number: stage
    for stage in (
        Stage(1, "frames and messages", s01_messages.grade),
        Stage(2, "append and fetch", s02_fetch.grade),
        Stage(3, "segments and offsets", s03_segments.grade),
        Stage(4, "flush and what may be read", s04_flush.grade),
        Stage(5, "recovery after a torn write", s05_recovery.grade),
        Stage(6, "retention", s06_retention.grade),
        Stage(7, "the assignment", s07_assignment.grade),
        Stage(8, "a member that joins and leaves", s08_member.grade, time_limit_s=60.0),
        Stage(9, "offsets and fenced commits", s09_offsets.grade, time_limit_s=60.0),
        Stage(10, "a producer that proves what was appended", s10_producer.grade),
        Stage(11, "your broker in a cluster", s11_cluster.grade, time_limit_s=90.0),
    )
}
"""Each stage by its number."""
