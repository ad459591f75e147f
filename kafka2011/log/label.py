"""The label of a log.dir: an empty file `.kafka2011_broker_{id}` in it, which says whose it is.

Where a disk is not mounted, an empty directory is in its place, and a broker would start empty there; where another
broker's is mounted, it would serve what is not its own. The file's name says all, so no crash leaves half a label.
"""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING

from kafka2011.errors import LogError

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

_LABEL = re.compile(r"\.kafka2011_broker_([0-9]+)")


def is_label(name: str) -> bool:
    """Say whether a file in log.dir is a label."""
    return _LABEL.fullmatch(name) is not None


def labelled_broker(log_dir: Path) -> int | None:
    """Return the id of the broker whose directory it is; None where no label says so, or several do. Raises OSError."""
    labels = [name for path in log_dir.iterdir() if (name := _LABEL.fullmatch(path.name))]
    return int(labels[0][1]) if len(labels) == 1 else None


class Label:
    """The label of one broker's log.dir.

    If it `is_required`, the broker does not start where neither it nor a log is. Methods let OSError through.
    """

    def __init__(self, brokerid: int, *, is_required: bool = False) -> None:
        self._brokerid = brokerid
        self._is_required = is_required
        self._name = f".kafka2011_broker_{brokerid}"

    def refuse_new(self, log_dir: Path) -> None:
        """Raise LogError if a directory without a label and logs must not be taken for a new one."""
        if self._is_required:
            raise LogError(
                f"log.dir {log_dir} has neither the label of a broker nor logs: is its disk mounted? If broker"
                f" {self._brokerid} is to begin there, start it with log.dir.label.required=false once"
            )

    def claim(self, log_dir: Path, *, has_logs: bool) -> bool:
        """Label the directory unless it is labelled; say whether that was to be done. The name is not on disk then.

        Raises LogError if it is another broker's, and like `refuse_new`.
        """
        labels = [path.name for path in log_dir.iterdir() if is_label(path.name)]
        for name in labels:
            if name != self._name:
                raise LogError(
                    f"log.dir {log_dir} is that of broker {name.rpartition('_')[2]}, and this is broker"
                    f" {self._brokerid}: mount the right disk, or remove {log_dir / name} if the logs are to be its own"
                )
        if labels:
            return False
        if not has_logs:
            self.refuse_new(log_dir)
            logger.warning(
                "log.dir %s is new: broker %d starts empty (if it should not, its disk may not be mounted)",
                log_dir,
                self._brokerid,
            )
        os.close(os.open(log_dir / self._name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        return True
