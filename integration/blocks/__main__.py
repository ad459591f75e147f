"""Prints what becomes of every block of the documents: run, checked elsewhere, or marked with a reason."""

from __future__ import annotations

from collections import Counter

from integration.blocks.gather import all_blocks
from integration.blocks.plans import status_of

if __name__ == "__main__":
    statuses = {block: status_of(block) for block in all_blocks()}
    for block, (status, why) in statuses.items():
        print(f"{block.place:45} {block.language:7} {status:10} {why}")  # noqa: T201
    for status, count in Counter(status for status, _ in statuses.values()).items():
        print(f"{status}: {count}")  # noqa: T201
