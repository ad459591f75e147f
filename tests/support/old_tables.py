"""Tables as version 0.1.0 left them, written by hand: a directory for each commit, with its offsets as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from tests.support.tables import FIRST_MS, ROW_BYTES, TOPIC, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa


class OldTable:
    """A table of one partition, 0-1."""

    def __init__(self, warehouse: Path, name: str = TOPIC, topic: str = TOPIC) -> None:
        self.path = warehouse / name
        self.quarantine = warehouse.with_name(f"{warehouse.name}-quarantine") / topic
        self.topic = topic
        self.end = 0
        self.number = 0

    def load(self, *places: str, refused: Sequence[str] = (), schema: int = 1, **columns: Any) -> None:
        """Commit one row for each place, such as date=2011-06-12/hour=09, and refuse some messages."""
        start, number = self.end, self.number + 1
        for each in places:
            rows = rows_of(number, self.end // ROW_BYTES, [FIRST_MS], **columns)
            self.write(number, each, rows)
            self.end += ROW_BYTES
        self.end += ROW_BYTES * len(refused)
        moved = {"partition": "0-1", "start": start, "end": self.end, "rows": len(places), "quarantined": len(refused)}
        more = {"lost_bytes": 0, "empty_bytes": 0, "repeats": 0}
        ranges = [moved | more] if self.end > start else []
        self.refuse(number, refused)
        self.commit("load", len(places), quarantined=len(refused), ranges=ranges, schema=schema)

    def compact(self, *replaced: int, keeps: bool = False) -> None:
        """Write the rows of some commits into a new one; remove those that it replaces, or leave them for now."""
        paths = [path for number in replaced for path in sorted(self.directory(number).rglob("*.parquet"))]
        rows = [pq.ParquetFile(path).read() for path in paths]
        for path, table in zip(paths, rows, strict=True):
            self.write(self.number + 1, str(path.parent.relative_to(path.parents[1])), table)
            if not keeps:
                path.unlink()
        self.commit("compact", sum(table.num_rows for table in rows), replaces=list(replaced))

    def directory(self, number: int) -> Path:
        return self.path / f"load_id={number:06d}"

    def write(self, number: int, place: str, rows: pa.Table) -> None:
        """Write a file, without a commit."""
        directory = self.directory(number) / place
        directory.mkdir(parents=True, exist_ok=True)
        name = f"part-{len(list(directory.iterdir())):05d}-c000.zstd.parquet"
        pq.write_table(rows, directory / name, compression="zstd")

    def refuse(self, number: int, payloads: Sequence[str]) -> None:
        """Put messages into quarantine."""
        if payloads:
            directory = self.quarantine / f"load_id={number:06d}"
            directory.mkdir(parents=True)
            lines = [json.dumps({"topic": self.topic, "offset": n, "payload": each}) for n, each in enumerate(payloads)]
            (directory / f"attempt{number}-00000.json").write_text("".join(f"{line}\n" for line in lines))

    def commit(self, kind: str, rows: int, **more: Any) -> None:
        """Write a commit down."""
        self.number += 1
        directory = self.directory(self.number)
        directory.mkdir(parents=True, exist_ok=True)
        document = {
            "version": 1,
            "topic": self.topic,
            "number": self.number,
            "kind": kind,
            "written_at_ms": FIRST_MS + self.number,
            "offsets": {"0-1": self.end},
            "ranges": [],
            "rows": rows,
            "quarantined": 0,
            "size_bytes": sum(path.stat().st_size for path in directory.rglob("*.parquet")),
            "schema": 1,
            "complete_through_ms": FIRST_MS,
            "replaces": [],
            "extra": {"seen_ms": {"0-1": FIRST_MS}},
            "attempt": f"attempt{self.number}",
        }
        (directory / "_offsets.json").write_text(json.dumps(document | more, indent=1))
