"""Counts lines of access logs that could not be parsed, and warns of the first and of every tenfold number."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafka2011.collect.access_log import is_unparsed
from kafka2011.collect.placed import PlacedLine

if TYPE_CHECKING:
    from kafka2011.collect.counts import CollectCounts

logger = logging.getLogger(__name__)

_SHOWN_CHARACTERS = 200


class UnparsedLines:
    """Counts what was made of lines: in `counts.lines_unparsed`, each line once however often it is sent."""

    def __init__(self, counts: CollectCounts) -> None:
        self._counts = counts
        self._next_warning = 1

    def note(self, line: bytes, event: dict[str, Any]) -> None:
        """Note the event that was made of a line."""
        if isinstance(line, PlacedLine):
            if line.was_counted:
                return
            line.was_counted = True
        if not is_unparsed(event):
            return
        self._counts.add(lines_unparsed=1)
        unparsed = self._counts.lines_unparsed
        if unparsed == self._next_warning:
            self._next_warning *= 10
            logger.warning(
                "%s could not be parsed as an access log, the latest with %r: %r (kafka2011 collect --check FILE shows"
                " what is found in a file; --log-format names its format)",
                "1 line" if unparsed == 1 else f"{unparsed} lines",
                *(event["parse_error"], event["line"][:_SHOWN_CHARACTERS]),
            )
