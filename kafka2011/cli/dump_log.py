"""`kafka2011 dump-log`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.app import EXIT_FAILED, EXIT_OK
from kafka2011.cli.formats import payload_field
from kafka2011.cli.options import examples
from kafka2011.cli.output import json_option, show_json_list, show_table
from kafka2011.cli.progress import byte_progress
from kafka2011.cli.segment_entries import SegmentReader, first_offset, segment_files
from kafka2011.errors import LogError
from kafka2011.message.crc import crc32, crcmod_is_compiled, independent_crc32
from kafka2011.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.cli.segment_entries import Entry

logger = logging.getLogger(__name__)

_HEAD = ("offset", "inner", "size", "magic", "codec", "payload", "crc")
_LINE = "{:>20} {:>6} {:>10} {:>5} {:>6} {:>10}  {}  {}"


@click.command(
    "dump-log",
    epilog=examples("kafka2011 dump-log logs --summary", "kafka2011 dump-log logs/views-0 --payload"),
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="PATH...")
@click.option(
    "--verify", is_flag=True, help="Recompute every CRC with crcmod, including those inside compressed messages."
)
@click.option("--payload", is_flag=True, help="Show payloads too, including those inside compressed messages.")
@click.option("--summary", is_flag=True, help="Show one line for each file instead of one for each message.")
@json_option
def command(paths: tuple[Path, ...], verify: bool, payload: bool, summary: bool, as_json: bool) -> int:
    """Show the messages in segment files, and check them.

    A PATH is a segment file, the directory of a partition, a log.dir, or any directory above. CRCs are always checked.
    Each fault is reported on standard error with its path and offset, and makes the command fail.
    """
    if verify and not crcmod_is_compiled():
        logger.warning("crcmod was built without a C compiler: this will take long")
    dump = _Dump(SegmentReader(independent_crc32 if verify else crc32, deep=verify or payload), summary or as_json)
    files = [file for path in paths for file in _files(path)]
    if summary:
        rows = [dump.summarize(file) for file in files]
        show_table(
            ("path", "first_offset", "end_offset", "messages", "compressed_inside", "bytes", "faults"),
            rows,
            as_json=as_json,
        )
    elif as_json:
        show_json_list(_as_object(file, entry, payload) for file in files for entry in dump.entries(file))
    else:
        for file in files:
            click.echo(f"{file}\n{_LINE.format(*_HEAD, '').rstrip()}")
            sys.stdout.writelines(_as_line(entry, payload) for entry in dump.entries(file))
    return EXIT_FAILED if dump.faults else EXIT_OK


class _Dump:
    """Reads files, shows progress, reports faults and counts them."""

    def __init__(self, reader: SegmentReader, quiet: bool) -> None:
        self._reader = reader
        self._quiet = quiet
        self.faults = 0

    def entries(self, file: Path) -> Iterator[Entry]:
        """Yield the messages of a file, each fault once it was reported."""
        # A bar and a listing on one terminal would write over one another.
        if not self._quiet and sys.stdout.isatty():
            yield from self._checked(file, lambda _done_bytes: None)
            return
        with byte_progress(file.name, file.stat().st_size) as advance:
            yield from self._checked(file, advance)

    def _checked(self, file: Path, advance: Callable[[int], None]) -> Iterator[Entry]:
        for entry in self._reader.entries(file):
            if not entry.inner:
                advance(entry.size)
            if entry.fault is not None:
                self.faults += 1
                where = f" (message {entry.inner} in the compressed one)" if entry.inner else ""
                click.echo(f"{file}: offset {entry.offset}{where}: {entry.fault}", err=True)
            yield entry

    def summarize(self, file: Path) -> tuple[str, int, int, int, int, int, int]:
        """Count what a file holds."""
        before = self.faults
        start = end = first_offset(file)
        outer = inner = 0
        for entry in self.entries(file):
            if entry.inner:
                inner += 1
            elif entry.magic is not None:
                outer += 1
                end = entry.offset + entry.size
        return str(file), start, end, outer, inner, file.stat().st_size, self.faults - before


def _files(path: Path) -> list[Path]:
    files = segment_files(path)
    if not files:
        raise LogError(f"there are no segment files in {path}")
    return files


def _as_line(entry: Entry, with_payload: bool) -> str:
    cells = (entry.magic, entry.codec, entry.payload_bytes)
    shown = ("-" if cell is None else cell for cell in cells)
    payload = _payload_of(entry) if with_payload else None
    text = "" if payload is None else printable(payload.decode("utf-8", "backslashreplace"))
    return _LINE.format(entry.offset, entry.inner, entry.size, *shown, entry.fault or "ok", text).rstrip() + "\n"


def _as_object(file: Path, entry: Entry, with_payload: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"path": str(file), **entry._asdict()}
    del document["payload"]
    payload = _payload_of(entry) if with_payload else None
    return document if payload is None else {**document, **payload_field(payload)}


def _payload_of(entry: Entry) -> bytes | None:
    """Return what to show: the messages in a compressed one stand in the lines after it."""
    return entry.payload if entry.codec in {"none", None} else None
