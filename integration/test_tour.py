"""What docs/tutorials/tour.md has a reader type does what the page shows."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.pasting import ROOT, Said, Shell, why_no_own_network

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "tutorials" / "tour.md"
BLOCK_TIMEOUT_S = 120.0
SETTLES_S = 30.0
"""How long what a cluster shows may take to become what the page shows."""
_SHOWS = ("kafka2011 groups", "kafka2011 registry", "kafka2011 fetch")
"""Commands that may be typed again, as a reader does who looks too soon."""
_VARIES = re.compile(r"\d{13}|(?<=-)[0-9a-f]{8}(?=-\d)|readers_[\w.-]+?(?=-\d{13})")

pytestmark = pytest.mark.timeout(420)


def steps() -> Iterator[tuple[str, str | None]]:
    """Yield what is typed, and what the page shows for it."""
    text = PAGE.read_text(encoding="utf-8")
    for found in re.finditer(r"^```sh\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", text, re.DOTALL | re.MULTILINE):
        yield found[1], found[2]


def like(text: str) -> list[str]:
    """Return the words of a text without what differs from run to run; a group may have committed or not.

    When a shell reports a job that was killed is up to the shell.
    """
    text = re.sub(r"^.*\bKilled\b.*\n", "", text, flags=re.MULTILINE)
    plain = re.sub(r"( +)(?:0|41)( +41 +)(?:0|41)$", r"\1-\2-", text, flags=re.MULTILINE)
    return _VARIES.sub("*", plain).split()


def is_done(said: Said, shown: str | None) -> bool:
    """Say whether a block did what the page says."""
    return said.status == 0 and (shown is None or like(said.text) == like(shown))


def test_the_tour(tmp_path: Path) -> None:
    """Each block is typed in turn; each output is the page's, at once or soon."""
    why = why_no_own_network()
    if why is not None:
        pytest.skip(f"a network of its own, with the page's ports, cannot be had: {why}")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("KAFKA2011_", "XDG_"))}
    environ = {**kept, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    typed = 0
    with Shell(sys.executable, tmp_path, environ) as shell:
        for block, shown in steps():
            deadline_s = time.monotonic() + SETTLES_S
            said = shell.type_in(block, BLOCK_TIMEOUT_S)
            while not is_done(said, shown):
                assert block.startswith(_SHOWS), f"{block}printed\n{said.text}and not\n{shown}"
                assert time.monotonic() < deadline_s, f"{block}still prints\n{said.text}and not\n{shown}"
                said = shell.type_in(block, BLOCK_TIMEOUT_S)
            typed += 1
        assert shell.type_in("ls tour/broker-0/logs/views-0 | grep -c cut\n", BLOCK_TIMEOUT_S).text.strip() == "1"
        shell.type_in("kafka2011 cluster --stop --directory tour\n", BLOCK_TIMEOUT_S)
    assert typed > 20
