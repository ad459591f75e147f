"""The command line `kafka2011`, allowed to hold 64 files open."""

from __future__ import annotations

import resource
import sys

from kafka2011.cli.app import main

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    sys.exit(main())
