"""The command `kafka2011`, also as `python -m kafka2011`."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of this process, or of some arguments, and return its exit status."""
    # Ctrl-C ends it without a traceback while modules are imported; the group of commands restores the handler.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kafka2011.cli.app import run_with_standard_streams  # noqa: PLC0415 (only now, see above)

    return run_with_standard_streams(arguments)


if __name__ == "__main__":
    sys.exit(main())
