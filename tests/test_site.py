"""The site: what the Markdown becomes, and that all of it builds without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import site
from scripts.docstrings import as_rst
from scripts.public_names import PUBLIC_MODULES

ROOT = Path(__file__).parent.parent
BUILD_TIMEOUT_S = 400
PATHS = {"Producer.send": "kafka2011.Producer.send"}


@pytest.mark.slow
@pytest.mark.timeout(BUILD_TIMEOUT_S + 30)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Every page is reached, every inner link leads somewhere, and each public module has its page."""
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    command = [sys.executable, "-m", "sphinx", "-c", "docs", "-b", "html", "-d", str(tmp_path / "cache"), "-n", "-W"]
    command += ["--keep-going", "-q", ".", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "url=docs/index.html" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    for module in PUBLIC_MODULES:
        page = (tmp_path / "site" / "docs" / "reference" / "api" / f"{module}.html").read_text(encoding="utf-8")
        assert f'id="{module}.' in page, module
    producer = (tmp_path / "site" / "docs" / "reference" / "api" / "kafka2011.html").read_text(encoding="utf-8")
    assert 'id="kafka2011.Producer.send"' in producer
    assert "forget_after_fork" not in producer
    assert "//cdn" not in producer


@pytest.mark.parametrize(
    ("line", "rst"),
    [
        ("Wait for `Producer.send`.", "Wait for :py:obj:`Producer.send <kafka2011.Producer.send>`."),
        ("Return what `x` is.", "Return what ``x`` is."),
        ("Two `x`s, *args and a_b_.", "Two ``x``\\ s, \\*args and a\\_b\\_."),
    ],
)
def test_a_docstring_s_line(line: str, rst: str) -> None:
    """Names in backticks become code, or links where they are public; no other character is markup."""
    assert as_rst([line], PATHS) == [rst]


def test_code_in_a_docstring() -> None:
    """Indented lines are code, set apart from the text around them."""
    lines = as_rst(["Do it:", "", "    with f(x):", "        pass", "", "Then `x`."], PATHS)
    assert lines == ["Do it:", "", ".. code-block:: python", "", "    with f(x):", "        pass", "", "Then ``x``."]


def test_sections_of_the_index_are_lists_of_pages() -> None:
    """A page stands in the list of the section that links to it first."""
    reference = "## Reference\n\n[A](reference/wire.md), [B](reference/disk.md#files)\n\n"
    text = f"# T\n\n{reference}## More\n\n[A](reference/wire.md)\n"
    lists = site.page_lists(site.INDEX, text)
    assert ":caption: Reference\n\n/docs/reference/wire\n/docs/reference/disk\n```" in lists
    assert ":caption: More\n\n```" in lists


def test_links_to_folders_become_text() -> None:
    """A site has no page for a folder of the repository."""
    text = "See [the units](../examples/systemd) and [wire](reference/wire.md)."
    assert site.without_links_to_folders("docs/index", text) == "See the units and [wire](reference/wire.md)."


def test_marks_of_blocks_are_shown() -> None:
    """A reader of the site sees why a block was not tried, with a line between that and the block."""
    text = "1. Do:\n\n   <!-- not run: it needs HDFS -->\n   ```sh\n   a\n   ```\n"
    assert "   *Not run by tests: it needs HDFS.*\n\n   ```sh" in site.with_shown_marks(text)
