"""What rotated files are called: names with a number or a date in them, and with a compressed file's ending."""

from __future__ import annotations

import re
from functools import lru_cache

COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z")
"""How the names of compressed files end."""

_NUMBER = r"[-._][0-9][0-9TZ:._-]*"
_DIGITS = re.compile(r"[0-9]+")
OF_MULTILOG = "current"
"""The name of the file that multilog and s6-log write to."""
_ROTATED_BY_MULTILOG = r"@[0-9a-f]{24}\.[su]"
_INNER_NUMBER = re.compile(rf"{_NUMBER}(?=[-._]|$)")


@lru_cache(1000)
def rotated_pattern(name: str) -> re.Pattern[str]:
    """Match what logrotate and logging libraries call `name` later: with a number or a date after it, or inside it.

    multilog and s6-log rename `current` to `@`, a time in hexadecimal digits, and `.s` or `.u`.
    """
    stem, dot, extension = name.rpartition(".")
    forms = [re.escape(name) + _NUMBER]
    if stem:
        forms.append(re.escape(stem) + _NUMBER + re.escape(dot + extension))
    if name == OF_MULTILOG:
        forms.append(_ROTATED_BY_MULTILOG)
    compressed = "|".join(map(re.escape, COMPRESSED))
    return re.compile(f"(?:{'|'.join(forms)})(?:{compressed})?")


@lru_cache(1000)
def target_pattern(former: str, current: str) -> re.Pattern[str] | None:
    """Match the names that a link may have had as its target between two others; None if they have no common pattern.

    The names may differ in numbers only: from the first one that differs on, all numbers vary.
    """
    at = next((place for place, (one, other) in enumerate(zip(former, current, strict=False)) if one != other), 0)
    while at and former[at - 1].isdigit():
        at -= 1
    parts = _DIGITS.split(former[at:])
    pattern = re.compile(re.escape(former[:at]) + "[0-9]+".join(map(re.escape, parts)))
    return pattern if former != current and pattern.fullmatch(current) else None


def first_word(name: str) -> str:
    """Return a name up to its first hyphen, dot or underscore."""
    return re.split(r"[-._]", name, maxsplit=1)[0]


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
