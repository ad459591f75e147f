"""The stages of the lab, in order."""

from __future__ import annotations

from kafka2011.lab.stage import Stage
from kafka2011.lab.stages import s01_messages, s02_fetch, s03_segments

STAGES = {
    stage.number: stage
    for stage in (
        Stage(1, "frames and messages", s01_messages.grade),
        Stage(2, "append and fetch", s02_fetch.grade),
        Stage(3, "segments and offsets", s03_segments.grade),
    )
}
"""Each stage by its number."""
