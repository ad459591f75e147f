"""What a collector is to collect, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.collect.lines import Nul
from kafka2011.collect.spool import SPOOL_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.collect.line_inputs import SocketAddress


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """Describes what to collect: paths and patterns, "-" for standard input, and where to listen.

    `state` is the directory with positions and spool. Lines over `max_line_bytes` are cut, or left out; `nul` says how
    NUL bytes in files are treated. The spool holds `spool_bytes`; beyond that it `drops_when_full`, or nothing more is
    read. With `as_page_views` each line is one of an access log and becomes a PageView, which counts as tier `audit` of
    the audit if that is named; that needs `zk_connect`, where the schema is registered, and the extra `pipeline`.
    `log_format` is the access log's format, as `kafka2011 collect --log-format` takes it; empty: as it is recognized.
    """

    paths: tuple[str, ...]
    topic: str
    state: Path
    max_line_bytes: int
    listen: SocketAddress | None = None
    follow: bool = False
    refuse_too_long: bool = False
    as_page_views: bool = False
    spool_bytes: int = SPOOL_BYTES
    drops_when_full: bool = False
    audit: str = ""
    zk_connect: str = ""
    nul: Nul = Nul.SKIP
    log_format: str = ""

    @property
    def runs_on(self) -> bool:
        """Return whether the collector ends only when it is stopped."""
        return self.follow or self.listen is not None
