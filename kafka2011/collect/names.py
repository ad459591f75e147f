"""What rotated files are called: names with a number or a date in them, and with a compressed file's ending."""

from __future__ import annotations

import re
from functools import lru_cache

COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z")
"""How the names of compressed files end."""

_NUMBER = r"[-._][0-9][0-9TZ:._-]*"
_INNER_NUMBER = re.compile(rf"{_NUMBER}(?=[-._]|$)")


@lru_cache(1000)
def rotated_pattern(name: str) -> re.Pattern[str]:
    """Match what logrotate and logging libraries call `name` later: with a number or a date after it, or inside it."""
    stem, dot, extension = name.rpartition(".")
    forms = [re.escape(name) + _NUMBER]
    if stem:
        forms.append(re.escape(stem) + _NUMBER + re.escape(dot + extension))
    compressed = "|".join(map(re.escape, COMPRESSED))
    return re.compile(f"(?:{'|'.join(forms)})(?:{compressed})?")


def without_compression(name: str) -> str:
    """Return a name or path as it was before the file was compressed."""
    for suffix in COMPRESSED:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


@lru_cache(10_000)
def family_name(name: str) -> str:
    """Return what rotated files of one log have in common: their name without numbers, dates and compression.

    Logs of several instances may have it in common too.
    """
    return _INNER_NUMBER.sub("", without_compression(name))
