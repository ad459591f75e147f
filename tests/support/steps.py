"""Files that tell a test of each change, before it is made: to look at what others see then, or to end there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kafka2011.warehouse.table.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.warehouse.table.files import Check


class Killed(BaseException):
    """Stands for kill -9: whoever is told it changes nothing more."""


class SteppedFiles(LocalFiles):
    """Files of this machine; `before` is called with the name of each change, and may raise."""

    def __init__(self, before: Callable[[str], object]) -> None:
        self.before = before

    def write(self, path: str, data: bytes) -> None:
        self.before("write")
        super().write(path, data)

    def make_directory(self, path: str) -> None:
        self.before("make_directory")
        super().make_directory(path)

    def delete(self, path: str) -> None:
        self.before("delete")
        with_steps, shutil.rmtree = shutil.rmtree, self._rmtree  # type: ignore[assignment]
        try:
            super().delete(path)
        finally:
            shutil.rmtree = with_steps

    def publish(self, source: str, directory: str, name: str, check: Check) -> None:
        self.before("publish")

        def checked(names: Sequence[str], read: Callable[[str], bytes]) -> None:
            check(names, read)
            self.before("rename")

        super().publish(source, directory, name, checked)
        self.before("renamed")

    def _rmtree(self, path: str) -> None:
        self.before("rmtree")
        _RMTREE(path)


_RMTREE = shutil.rmtree


class KilledAt:
    """Ends at the nth change, and at every one after it; `steps` are those that were reached."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.steps: list[str] = []

    def __call__(self, step: str) -> None:
        self.steps.append(step)
        if len(self.steps) >= self.number:
            raise Killed(step)
