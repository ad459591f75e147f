"""Writes of what was read before: they are tried again when another process has written meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zk.errors import NodeExists, NodeNotEmpty, NoNode, VersionConflict

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIES = 20


def retry_conflicts(read_and_write: Callable[[], object]) -> None:
    """Call it until no other process interferes. Raises the conflict of the last try if one always does."""
    for tries_left in reversed(range(_TRIES)):
        try:
            read_and_write()
        except (VersionConflict, NodeExists, NoNode, NodeNotEmpty):
            if not tries_left:
                raise
        else:
            return
