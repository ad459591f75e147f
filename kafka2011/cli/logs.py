"""Logging of a command, to standard error."""

from __future__ import annotations

import logging
import sys

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure(*, debug: bool) -> None:
    """Log warnings, or everything."""
    logging.basicConfig(stream=sys.stderr, format=_FORMAT, level=logging.DEBUG if debug else logging.WARNING)
    if not debug:
        # Every single try to connect; that all of them failed is an error of its own.
        logging.getLogger("zk.kazoo").setLevel(logging.ERROR)


def log_progress_of_a_server() -> None:
    """Log what a server does too: it has nothing else to say, and runs for long."""
    root = logging.getLogger()
    if root.level > logging.INFO:
        root.setLevel(logging.INFO)
