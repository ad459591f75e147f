"""What a check of the lab finds wrong: the bytes that were sent, wanted and received."""

from __future__ import annotations

from dataclasses import dataclass

from kafka2011.errors import KafkaError


class LabError(KafkaError):
    """The lab cannot begin: a file is missing or wrong, or a program does not build."""


@dataclass
class WrongError(KafkaError):
    """A program does not do what the stage asks for.

    `what` is a sentence for the student. `sent`, `wanted` and `came` are bytes, None where they do not apply; `note`
    has the program's last words, or another hint. `started` is the command, and `files` are those in `data` with their
    sizes; both are empty where they are not known.
    """

    what: str
    sent: bytes | None = None
    wanted: bytes | None = None
    came: bytes | None = None
    note: str = ""
    started: str = ""
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.what


class SkippedError(KafkaError):
    """A stage cannot be tried on this machine; the text says why."""
