"""A process that kills itself before a chosen one of the calls by which it writes."""

from __future__ import annotations

import functools
import os
import signal
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event
from sqlalchemy.engine import Engine

from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.iceberg.storage import Storage
from kafka2011.warehouse.table.iceberg.synced_io import SyncedFile

if TYPE_CHECKING:
    from collections.abc import Callable


class Steps:
    """Counts what the process does, and ends it before the one that is its last; it lives on with 0."""

    def __init__(self, last: int) -> None:
        self.names: list[str] = []
        self._last = last

    def step(self, name: str) -> None:
        """Say what comes next."""
        self.names.append(name)
        if len(self.names) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, owner: Any, name: str, *, after: bool = False) -> None:
        """Make a step of each call of a function, and of its return."""
        real: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(real)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.step(name)
            returned = real(*args, **kwargs)
            if after:
                self.step(f"after {name}")
            return returned

        setattr(owner, name, counted)

    def before_commits(self) -> None:
        """Make a step of each call by which a table of either format commits: files, statements, renames."""
        for owner, name in (
            (LocalFiles, "write"),
            (LocalFiles, "publish"),
            (Storage, "make_directory"),
            (Storage, "mark"),
            (SyncedFile, "create"),
        ):
            self.before(owner, name)
        self.before(os, "rename", after=True)
        self.before(SqlCatalog, "commit_table", after=True)

        def on_statement(_: object, __: object, statement: str, *___: object) -> None:
            if not statement.startswith(("SELECT", "PRAGMA")):
                self.step(statement.split(maxsplit=1)[0])

        event.listen(Engine, "before_cursor_execute", on_statement)
        event.listen(Engine, "commit", lambda _: self.step("commit"))
