"""The page of a run."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from integration.chaos.page import page_of
from tests.support.chaos_evidence import A, good_evidence, happened


def test_everything_is_on_the_page() -> None:
    """Faults, owners, commits and the account, in one file that needs nothing else."""
    evidence = good_evidence()
    evidence.happened = [happened("kill broker", 3, 5, "broker-<2>"), happened("link", 3, 5)]
    page = page_of(evidence, 4711, "messages 2 & more", is_good=False)
    drawing = ET.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    tips = [title.text for title in drawing.iter("title")]
    assert tips[0] == "kill broker (broker-<2>), 3.0 to 5.0 s"
    assert f"{A} owns chaos-1/0-0" in tips
    labels = [text.text for text in drawing.iter("text")]
    assert {"kill broker", "group growing", "chaos-1/0-0"} <= set(labels)
    assert "link" not in labels, "nobody suffered it"
    assert len([line for line in drawing.iter("line") if line.get("stroke") == "#000"]) == 3
    assert "messages 2 &amp; more" in page
    assert "FAILED" in page
    assert "http" not in page
    assert "src=" not in page
