"""The kept corpus: what cases are made from, and every input that once showed a defect.

A file for each target, a line for each input: hex, or text as JSON has it. What follows a `#` is a comment.
"""

from __future__ import annotations

import json
from pathlib import Path

DIRECTORY = Path(__file__).with_name("corpus")
_TEXT = '"'
_COMMENT = "#"
_BREAKS = "\n\t\0"


def read_corpus(name: str) -> list[bytes]:
    """Return a target's inputs, each once, in order."""
    lines = (DIRECTORY / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return list(dict.fromkeys(read_line(line) for line in lines if not line.startswith(_COMMENT)))


def read_line(line: str) -> bytes:
    """Return the input that a line stands for. Raises ValueError."""
    if not line.startswith(_TEXT):
        return bytes.fromhex(line.partition(_COMMENT)[0])
    text, _ = json.JSONDecoder().raw_decode(line)
    return str(text).encode()


def to_line(data: bytes) -> str:
    """Return the line for an input."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    is_text = text and all(each.isprintable() or each in _BREAKS for each in text)
    return json.dumps(text, ensure_ascii=False) if is_text else data.hex()
