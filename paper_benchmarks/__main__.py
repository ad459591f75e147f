"""`python -m paper_benchmarks`."""

from __future__ import annotations

import sys

from paper_benchmarks.cli import main

if __name__ == "__main__":
    sys.exit(main())
