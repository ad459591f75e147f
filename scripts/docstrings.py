"""Docstrings of this project as the markup that Sphinx reads.

They are plain text in which names stand between single backticks and code is indented by four spaces.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAME = re.compile(r"(`[^`]+`)")
_MARKUP = re.compile(r"([\\*|_])")


def as_rst(lines: Sequence[str], paths: Mapping[str, str]) -> list[str]:
    """Return a docstring's lines in reStructuredText; `paths` maps names to what the reference calls them."""
    found: list[str] = []
    in_code = False
    for line in lines:
        is_code = line.startswith("    ")
        if is_code and not in_code:
            found += [".. code-block:: python" if "=" in line or "(" in line else ".. code-block:: text", ""]
        in_code = is_code or (in_code and not line.strip())
        found.append(line if is_code else _inline(line, paths))
    return found


def _inline(line: str, paths: Mapping[str, str]) -> str:
    parts = _NAME.split(line)
    for number, part in enumerate(parts):
        if number % 2 == 0:
            parts[number] = _MARKUP.sub(r"\\\1", part)
            continue
        name = part.strip("`")
        path = paths.get(name.removesuffix("()"))
        link = f":py:obj:`{name} <{path}>`" if path else f"``{name}``"
        # Markup ends only before a space or punctuation.
        after = parts[number + 1][:1]
        before = parts[number - 1][-1:]
        parts[number] = ("\\ " if before.isalnum() else "") + link + ("\\ " if after.isalnum() else "")
    return "".join(parts)
