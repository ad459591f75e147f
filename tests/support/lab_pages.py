"""The examples in the pages of the lab, as what is sent and what should come."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.lab.stage import Stage

_LINE = re.compile(r"^    ([$|=>]|->|<-)(?: (.*))?$")


class Exchange(NamedTuple):
    """Requests on a connection; `wanted` is the answer, None where the connection is closed."""

    sent: bytes
    wanted: bytes | None


class Call(NamedTuple):
    """A role with its arguments, standard input, and what is written to standard output."""

    arguments: list[str]
    stdin: bytes
    wanted: bytes


def examples(stage: Stage) -> Iterator[Exchange | Call]:
    """Yield the examples of a page in order."""
    lines = [found for line in stage.page().splitlines() if (found := _LINE.match(line))]
    while lines:
        if lines[0][1] == "$":
            arguments = lines.pop(0)[2].split()
            stdin = b"".join((line[2] or "").encode() + b"\n" for line in _take(lines, "|"))
            yield Call(arguments, stdin, _hex(_take(lines, "=")) or b"".join(_text(_take(lines, ">"))))
        else:
            sent = _hex(_take(lines, "->"))
            answer = _take(lines, "<-")
            assert sent, stage.number
            assert answer, stage.number
            yield Exchange(sent, None if answer[0][2] == "closed" else _hex(answer))


def _take(lines: list[re.Match[str]], mark: str) -> list[re.Match[str]]:
    taken = []
    while lines and lines[0][1] == mark:
        taken.append(lines.pop(0))
    return taken


def _hex(lines: list[re.Match[str]]) -> bytes:
    return bytes.fromhex("".join(line[2].partition("#")[0] for line in lines))


def _text(lines: list[re.Match[str]]) -> Iterator[bytes]:
    for line in lines:
        yield line[2].encode() + b"\n"
