"""Settings of the site, which `make site` builds; what they use is in scripts/site.py."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from scripts import site  # noqa: E402  # found only now

_project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _project["name"]
version = release = _project["version"]
html_title = f"{project} {version}"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
# Pages stand where they do in the repository, so that links between them lead to the same places.
include_patterns = ["*.md", "docs/**", "paper_benchmarks/*.md", "integration/images/README.md"]
exclude_patterns = [".*", "build", "dist", "docs/pictures/*"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
pygments_style = "default"
pygments_dark_style = "monokai"


def setup(app: object) -> None:
    """Have Sphinx call what makes the reference of the public interface and the lists of pages."""
    site.connect(app)
