"""Logging of a command, to standard error."""

from __future__ import annotations

import logging
import sys

from kafka2011.outages import RepeatLimit

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Plain(logging.Formatter):
    """A command's warnings look like its errors."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, with a traceback after it if there is one."""
        record.levelname = record.levelname.lower()
        return super().format(record)


def configure(*, debug: bool) -> None:
    """Log warnings, or everything."""
    logging.basicConfig(stream=sys.stderr, format=_FORMAT, level=logging.DEBUG if debug else logging.WARNING)
    if not debug:
        _format(_Plain("kafka2011: %(levelname)s: %(message)s"))
        # Every single try to connect; that all of them failed is an error of its own.
        logging.getLogger("zk.kazoo").setLevel(logging.ERROR)


def log_progress_of_a_server(most_repeats: int = 0) -> None:
    """Log what a server does too, and when: it has nothing else to say, and runs for long.

    With `most_repeats`, one statement logs at most so many lines in a minute.
    """
    _format(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    if most_repeats:
        for handler in root.handlers:
            handler.addFilter(RepeatLimit(most_repeats))
    if root.level > logging.INFO:
        root.setLevel(logging.INFO)


def _format(formatter: logging.Formatter) -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            handler.setFormatter(formatter)
