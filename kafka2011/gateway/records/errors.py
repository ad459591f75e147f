"""What can be wrong with records, and with a log that holds them."""

from __future__ import annotations

from typing import Final

from zk.errors import KafkaError

CORRUPT_MESSAGE: Final = 2
MESSAGE_TOO_LARGE: Final = 10
UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = 43
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
INVALID_RECORD: Final = 87


class InvalidRecordsError(KafkaError):
    """Means that record batches cannot be taken or made; `code` is the number that Kafka's protocol has for it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class LostBoundaryError(KafkaError):
    """Means that a length in a log is impossible: nothing tells where the next message begins."""

    def __init__(self, position: int, length: int) -> None:
        super().__init__(f"at position {position} of the log stands the length {length}, which no message has")
        self.position = position
