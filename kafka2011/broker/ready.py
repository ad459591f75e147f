"""The line that a broker prints when clients may connect, for people and for the process that started it."""

from __future__ import annotations

import re
from typing import NamedTuple

_READY = re.compile(rb"^broker (\d+) is ready on (\S+):(\d+)\r?\n", re.MULTILINE)


class Ready(NamedTuple):
    """Which broker is ready, and the address that it registered."""

    broker_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.broker_id} is ready on {self.host}:{self.port}"

    @classmethod
    def find(cls, output: bytes) -> Ready | None:
        """Return what the first such line in a broker's output says, or None while there is no whole one."""
        match = _READY.search(output)
        return None if match is None else cls(int(match[1]), match[2].decode(), int(match[3]))
