"""Leases of sessions that a test ends and begins by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class LeaseInMemory:
    """Lasts for ever once it is renewed, until it ends; `renew_answer` stands for ZooKeeper's answer."""

    until_s: float = 0.0
    renew_interval_s: float = 1.0
    renew_answer: Callable[[], None] = field(default=lambda: None)

    def renew(self) -> None:
        self.renew_answer()
        self.until_s = float("inf")

    def end(self) -> None:
        self.until_s = 0.0
