"""Every sh and python block of the documents is run, checked by a test that is named, or marked with a reason."""

from __future__ import annotations

from integration.blocks.gather import ROOT, Block, all_blocks, blocks_of
from integration.blocks.plans import ELSEWHERE, PLANS, status_of

BLOCKS = all_blocks()


def test_nothing_becomes_of_no_block() -> None:
    """A new block gets a step in integration/blocks/plans.py, or a line `<!-- not run: why -->` before it."""
    assert len(BLOCKS) > 100
    assert [block.place for block in BLOCKS if status_of(block)[0] == "nothing"] == []


def test_a_step_names_one_block() -> None:
    """The words of a step stand in one block of its page, which is not marked."""
    for plan in PLANS:
        for step in plan.steps:
            held = [block for block in BLOCKS if block.page == plan.page and step.holding in block.text]
            assert [block.why_not for block in held] == [""], f"{plan.page}: {step.holding}"


def test_tests_that_check_blocks_exist() -> None:
    """Each names a file, and a block that it is for."""
    for (page, holding), test in ELSEWHERE.items():
        assert (ROOT / test).exists(), test
        assert any(block.page == page and holding in block.text for block in BLOCKS), f"{page}: {holding}"


def test_reasons_are_sentences() -> None:
    """A reader learns from a mark why nobody has tried the block."""
    reasons = {block.why_not for block in BLOCKS if block.why_not}
    assert reasons
    assert all(len(reason.split()) > 2 for reason in reasons)


def test_blocks_of_a_page() -> None:
    """Blocks in lists, marks, and what a page says that a block prints."""
    page = (
        "# P\n\n1. Do:\n\n   ```sh\n   a b\n   ```\n\n<!-- not run: it needs HDFS -->\n```python\nx = 1\n```\n\n"
        "It prints\n\n```\none\n```\n\n```toml\nno = 1\n```\n\n```sh\nc\n```\n\nThis prints:\n\n```text\ntwo\n```\n"
    )
    assert blocks_of("p.md", page) == [
        Block("p.md", 5, "sh", "a b\n", "", ""),
        Block("p.md", 10, "python", "x = 1\n", "one\n", "it needs HDFS"),
        Block("p.md", 24, "sh", "c\n", "two\n", ""),
    ]
    [block] = blocks_of("p.md", "<!-- no block is run: they take hours -->\n\n```sh\na\n```\n")
    assert block.why_not == "they take hours"
