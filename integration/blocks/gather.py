"""Finds the blocks of the documents, and why some of them are not run.

A block that no test can run is marked where it stands, in a line of its own before it:

    <!-- not run: it needs HDFS -->

A page of which no block can be run says so once, anywhere: `<!-- no block is run: they take hours -->`.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))

_BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<why>[^\n]*?) -->\n\s*)?^(?P<indent> *)```(?P<language>sh|python)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_WHOLE_PAGE = re.compile(r"<!-- no block is run: (.*?) -->")
_PRINTS = re.compile(r"\s*(?:[^\n]*\bprints?:?\n)\s*```(?:text)?\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A block of a page: where it stands, what it holds, what the page says that it prints, and why it is not run."""

    page: str
    line: int
    language: str
    text: str
    prints: str
    why_not: str

    @property
    def place(self) -> str:
        """Where it stands: `page:line`."""
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    whole = _WHOLE_PAGE.search(text)
    found = []
    for match in _BLOCK.finditer(text):
        printed = _PRINTS.match(text, match.end())
        found.append(
            Block(
                page,
                text.count("\n", 0, match.start("language")) + 1,
                match["language"],
                textwrap.dedent(match["indent"] + match["text"]) if match["indent"] else match["text"],
                printed[1] if printed else "",
                match["why"] or (whole[1] if whole else ""),
            )
        )
    return found


def all_blocks() -> list[Block]:
    """Return the blocks of all pages."""
    return [
        block for path in PAGES for block in blocks_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]
