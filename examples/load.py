"""`kafka2011 load` for spark-submit, which wants a file: spark-submit --master URL load.py --warehouse PATH ..."""

from __future__ import annotations

import sys

from kafka2011.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["load", *sys.argv[1:]]))
