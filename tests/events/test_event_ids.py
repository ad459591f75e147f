"""The ids of events."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from kafka2011.audit.report import short_ids
from kafka2011.events import event_ids
from kafka2011.events.event_ids import EventIds

if TYPE_CHECKING:
    import pytest


def test_ids_are_uuids_that_count() -> None:
    """Version 8, the variant of RFC 9562, and in a row."""
    ids = EventIds()
    found = [uuid.UUID(ids.next()) for _ in range(300)]
    assert {(each.version, each.variant) for each in found} == {(8, uuid.RFC_4122)}
    assert [each.int - found[0].int for each in found] == list(range(300))
    assert [str(each) for each in found[:2]] == [f"{str(found[0])[:24]}00000000000{digit}" for digit in "01"]


def test_each_source_has_its_own_ids() -> None:
    """Unless it is asked for the same ones, from 60 bits."""
    assert EventIds().next()[:24] != EventIds().next()[:24]
    assert EventIds(2**60 - 1).next() == "ffffffff-ffff-8fff-8000-000000000000"
    assert EventIds(1).next() == "00000000-0000-8001-8000-000000000000"


def test_a_forked_child_is_another_source() -> None:
    """Or parent and child would give one id to two events."""
    ids = EventIds()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, ids.next().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode()[:24] != ids.next()[:24]
    os.close(reader)
    os.close(writer)


def test_after_the_last_number_a_new_source_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """No id comes twice."""
    monkeypatch.setattr(event_ids, "_NUMBERS", 2)
    ids = EventIds()
    assert len({ids.next() for _ in range(9)}) == 9


def test_short_ids_of_one_source_lie_close_together() -> None:
    """That makes reports small."""
    ids = EventIds()
    found = short_ids([ids.next() for _ in range(1024)])
    assert int(found.max()) - int(found.min()) == 1023
