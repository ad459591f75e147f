"""Text from messages, files and znodes, made harmless where people read it."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return text in which nothing is invisible or controls a terminal: such characters become escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
