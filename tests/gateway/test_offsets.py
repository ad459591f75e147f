"""ListOffsets by time: what clients are told of the message that was found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka2011.gateway.requests.context import Caller
from kafka2011.gateway.requests.offsets import list_offsets


@pytest.mark.parametrize(
    ("found", "told"), [((5, 1_500), (5, 1_500)), ((5, -1), (5, 1_000)), (None, (-1, -1))], ids=["dated", "0.7", "none"]
)
def test_a_message_of_0_7_is_told_with_the_time_that_was_asked_for(
    found: tuple[int, int] | None, told: tuple[int, int]
) -> None:
    """Java's consumer ends at a negative timestamp."""
    log = SimpleNamespace(is_current=True, fault="", number_at_time=lambda _: found, where="views-0-0")
    served = SimpleNamespace(log=log, want=lambda: None)
    gateway: Any = SimpleNamespace(partitions=SimpleNamespace(find=lambda *_: served))
    body = {"topics": [{"name": "views", "partitions": [{"partition_index": 0, "timestamp": 1_000}]}]}
    (topic,) = list_offsets(gateway, Caller("anonymous", "here", False, None), body)["topics"]
    (answer,) = topic["partitions"]
    assert (answer["offset"], answer["timestamp"]) == told
