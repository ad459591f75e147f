"""A file of TOML that says what clients may do, and is read again when it changes."""

from __future__ import annotations

import logging
import tomllib
from typing import TYPE_CHECKING, Generic, TypeVar

from kafka2011.broker.security.file_changes import FileChanges
from kafka2011.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zk.clock import Clock

RulesT = TypeVar("RulesT")

logger = logging.getLogger(__name__)


class RulesFile(Generic[RulesT]):
    """Some tables of rules: `rules` has what `read_table` makes of each, by the table's name.

    `read_table` is given the name and the table, and raises ValueError. The table `topics.create` is in `topics`.
    `setting` is what names the file. Raises ConfigError when the file cannot be used, at the start only:
    later the old rules stay, and that is logged.
    """

    def __init__(
        self,
        setting: str,
        path: Path,
        tables: tuple[str, ...],
        read_table: Callable[[str, dict[str, object]], RulesT],
        clock: Clock,
    ) -> None:
        self._setting = setting
        self._path = path
        self._tables = tables
        self._read_table = read_table
        self._changes = FileChanges([path], clock)
        self.rules = self._read()

    def has_changed(self) -> bool:
        """Read it again if a second has passed and it has changed; say whether there are other rules."""
        if not self._changes.come():
            return False
        try:
            self.rules = self._read()
        except ConfigError as error:
            logger.error("%s: the old rules stay", error)  # noqa: TRY400 (it says all)
            return False
        logger.info("%s has changed and was read again", self._path)
        return True

    def _read(self) -> dict[str, RulesT]:
        try:
            tables = self._sections(tomllib.loads(self._path.read_text(encoding="utf-8")))
            strange = set(tables) - set(self._tables)
            if strange:
                known = ", ".join(f"[{name}]" for name in self._tables)
                raise ValueError(f"unknown section [{min(strange)}]; allowed are {known}")  # noqa: TRY301
            return {name: self._table(name, tables.get(name, {})) for name in self._tables}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self._setting} {self._path}: {error}") from error

    def _sections(self, tables: dict[str, object]) -> dict[str, object]:
        """Return all tables by their full names."""
        sections: dict[str, object] = {}
        groups = {name.partition(".")[0] for name in self._tables if "." in name}
        for name, table in tables.items():
            if name in groups and isinstance(table, dict):
                sections |= {f"{name}.{inner}": rules for inner, rules in table.items()}
            else:
                sections[name] = table
        return sections

    def _table(self, name: str, table: object) -> RulesT:
        if not isinstance(table, dict):
            raise ValueError(f"{name} must be a table")  # noqa: TRY004
        return self._read_table(name, table)
