"""The command `kafka2011`, also as `python -m kafka2011`."""

from __future__ import annotations

import sys

from kafka2011.cli.app import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
