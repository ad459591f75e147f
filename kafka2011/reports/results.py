"""Results on disk: each derivation is a directory of its own, whole, and never changed.

    {directory}/derived=000007/{report}/date=2011-06-12/*.parquet   and   report.html, _derived.json
    {directory}/latest                                              a link to the newest

A derivation is made in `{directory}/_staging/` and appears by one rename, so a reader of any directory sees results of
one range of events. Days that it did not derive anew are hard links to files of the one before: they cost no room, and
older derivations can be removed. The number is the fence: where two derive at once, the second fails.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import uuid
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Self

from kafka2011.disk import publish_directory
from kafka2011.json_document import read_document
from kafka2011.warehouse.errors import OvertakenError, WarehouseError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

LATEST = "latest"
_STAGING = "_staging"
_LOCK = "_lock"
_NAME = re.compile(r"derived=(\d{6,})")
_DERIVED = "_derived.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Derivation:
    """One derivation: results of everything up to `through`; those of the days in `days` are new.

    It lies beside them, as `_derived.json`, and appears with them in one rename.
    `through` says of each topic how far it was read, in words of the inputs of this `kind`; `after` the same of the
    derivation before, whose other days were taken over. It is empty when all days were derived.
    """

    number: int
    derived_at_ms: int
    kind: str
    settings: Mapping[str, Any]
    after: Mapping[str, Any]
    through: Mapping[str, Any]
    days: Mapping[str, tuple[date, ...]]
    """By name of a report."""

    def to_json(self) -> str:
        """Return it as JSON text."""
        fields = asdict(self)
        fields["days"] = {name: [day.isoformat() for day in days] for name, days in self.days.items()}
        return json.dumps({"version": _VERSION, **fields}, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Read it. Raises WarehouseError, naming `where` it stood."""
        wrong = f"{where} is not what a derivation writes"
        return read_document(text, cls._of, WarehouseError, wrong, version=_VERSION)

    @classmethod
    def _of(cls, document: dict[str, Any]) -> Self:
        return cls(
            int(document["number"]),
            int(document["derived_at_ms"]),
            str(document["kind"]),
            document["settings"],
            dict(document["after"]),
            dict(document["through"]),
            {name: tuple(map(date.fromisoformat, days)) for name, days in document["days"].items()},
        )


class Results:
    """The directory of all results. Use it as a context manager: only one at a time can derive into it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = -1

    def __enter__(self) -> Self:
        """Make the directory, take its lock, and remove what derivations that were killed have left.

        Raises WarehouseError while another process derives into it; OSError.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.directory / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise WarehouseError(f"another process is deriving into {self.directory}") from None
        shutil.rmtree(self.directory / _STAGING, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def newest(self) -> Derivation | None:
        """Return the newest derivation; None before the first. Raises WarehouseError for one that cannot be read."""
        numbers = self.numbers()
        if not numbers:
            return None
        path = self.of(numbers[-1]) / _DERIVED
        try:
            return Derivation.from_json(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            raise WarehouseError(f"{path} is missing: remove its directory, and it is derived again") from None

    def numbers(self) -> list[int]:
        """Return the numbers of the derivations that are there, oldest first."""
        try:
            names = [entry.name for entry in self.directory.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def of(self, number: int) -> Path:
        """Return the directory of a derivation."""
        return self.directory / f"derived={number:06d}"

    @contextlib.contextmanager
    def staging(self) -> Iterator[Path]:
        """Make a directory for one derivation, and remove it in the end, unless it was published."""
        path = self.directory / _STAGING / str(uuid.uuid4())
        path.mkdir(parents=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def take_over(self, number: int, report: str, staging: Path, *, without: Collection[date] = ()) -> None:
        """Link a report's days of an earlier derivation into a new one, without some of them."""
        left_out = {f"date={day.isoformat()}" for day in without}
        for day in sorted((self.of(number) / report).glob("date=*")):
            if day.name not in left_out:
                target = staging / report / day.name
                target.mkdir(parents=True)
                for file in sorted(day.glob("*.parquet")):
                    os.link(file, target / file.name)

    def publish(self, staging: Path, derivation: Derivation) -> Path:
        """Make a derivation visible, in one step and on disk; return its directory. Raises OvertakenError."""
        (staging / _DERIVED).write_text(derivation.to_json(), encoding="utf-8")
        target = self.of(derivation.number)
        try:
            publish_directory(staging, self.directory, target.name)
        except FileExistsError as error:
            raise OvertakenError(f"{target} exists already: another process has derived into it") from error
        self.point_to(derivation.number)
        return target

    def point_to(self, number: int) -> None:
        """Let `latest` be a link to a derivation, in one step."""
        link = self.directory / LATEST
        name = self.of(number).name
        if link.is_symlink() and link.readlink().name == name:
            return
        new = self.directory / f"{LATEST}.new"
        new.unlink(missing_ok=True)
        new.symlink_to(name)
        new.rename(link)

    def remove_old(self, keep: int) -> None:
        """Remove all derivations but the newest ones, the oldest first."""
        for number in self.numbers()[:-keep]:
            shutil.rmtree(self.of(number))
