"""Why a file is not read."""

from __future__ import annotations

from kafka2011.errors import KafkaError


class RefusedFileError(KafkaError):
    """A file is not read; the text names it and says why. `nul_position` is where a NUL byte is, if that is why."""

    nul_position: int | None = None


class CompressedNowError(RefusedFileError):
    """A file that was empty is compressed; it has to be opened again."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is compressed, and was empty before")


class NulByteError(RefusedFileError):
    """A file holds a NUL byte, at `nul_position`; the text names the path and the place."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(
            f"{path} holds a NUL byte at {position}: a binary file, or one that was truncated while its writer went on"
            " at the old place"
        )
        self.nul_position = position


class NoTextError(RefusedFileError):
    """A file has no lines of text; the text names the path, and says what it is."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} holds no lines of text: it is {what}")
