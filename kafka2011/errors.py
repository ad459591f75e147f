"""What can go wrong outside the coordination layer, with the broker's error codes both ways."""

from __future__ import annotations

import importlib.metadata
import re
from typing import ClassVar

from zk.errors import KafkaError

__all__ = [
    "REGEX_ERRORS",
    "BrokerConnectionError",
    "BrokerError",
    "ConfigError",
    "ErrorCodes",
    "InvalidMessageError",
    "InvalidMessageSizeError",
    "KafkaError",  # the root, which the coordination layer defines since it knows nothing of this package
    "LogClosedError",
    "LogError",
    "MessageSizeTooLargeError",
    "MissingExtraError",
    "OffsetOutOfRangeError",
    "ProtocolError",
    "UnknownError",
    "WrongPartitionError",
    "missing_extra",
]


REGEX_ERRORS = (re.error, OverflowError, RecursionError)
"""What compiling a text raises that is no regular expression, or repeats or nests more than one may."""


class UnexpectedError(KafkaError):
    """Means that one part of some work failed in a way that nobody has thought of; the other parts go on."""


def as_failure(error: BaseException) -> KafkaError:
    """Return the error with which one part of some work ends, such as one topic of a load, while the others go on.

    An error of this package is returned as it is, any other one as UnexpectedError. Raises the error itself if it ends
    the process: an interrupt, or an exit. A panic of code in Rust does not, though Python derives it from neither.
    """
    if isinstance(error, KafkaError):
        return error
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
    first_line = str(error).partition("\n")[0]
    failure = UnexpectedError(f"internal error: {type(error).__name__}: {first_line}")
    failure.__cause__ = error
    return failure


class ConfigError(KafkaError):
    """Means that a setting is unknown or that its value is not allowed."""


class ProtocolError(KafkaError):
    """Means that bytes are not a frame, a request or a response of the 0.7 protocol."""


class BrokerConnectionError(KafkaError):
    """Means that a broker could not be reached, or that the connection ended before the answer was complete.

    `sent_bytes` is how much of what was being sent had been handed to the operating system, where that is known.
    """

    sent_bytes = 0


class MessageSizeTooLargeError(KafkaError):
    """Means that a payload is larger than max.message.size; nothing of its set was written."""


class LogError(KafkaError):
    """A log directory or segment cannot be used in its present state; the text names the path."""


class LogClosedError(LogError):
    """The log was closed, or stopped after an I/O error."""


class BrokerError(KafkaError):
    """Stands for an error that a broker reports by number."""

    code: int = -1

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class UnknownError(BrokerError):
    """Means that the broker could not say what was wrong, or answered with an unknown number."""

    code = -1


class OffsetOutOfRangeError(BrokerError):
    """Means that the offset lies before the first segment or after the flushed end of the log."""

    code = 1


class InvalidMessageError(BrokerError):
    """Means that a message has a wrong CRC, an unknown magic or codec, or a payload that cannot be decompressed."""

    code = 2


class WrongPartitionError(BrokerError):
    """Means that the broker has no partition of this number for the topic."""

    code = 3


class InvalidMessageSizeError(BrokerError):
    """Means that a length is impossible, or that a fetch was too small to hold one whole message."""

    code = 4


class NotAllowedError(BrokerError):
    """Means that the broker's rules (allow.file) forbid this client to consume the topic; the text names both.

    No number of 0.7: only clients of this package are answered it, and others get an empty set.
    """

    code = 29


class ErrorCodes:
    """The numbers of 0.7's error table, and one of ours, both ways."""

    NONE: ClassVar[int] = 0
    _BY_CODE: ClassVar[dict[int, type[BrokerError]]] = {
        error.code: error
        for error in (
            UnknownError,
            OffsetOutOfRangeError,
            InvalidMessageError,
            WrongPartitionError,
            InvalidMessageSizeError,
            NotAllowedError,
        )
    }

    @classmethod
    def error_for(cls, code: int, message: str) -> BrokerError:
        """Return the exception for a broker's error number; an unknown number is kept in `code`."""
        known = cls._BY_CODE.get(code)
        if known is None:
            return UnknownError(f"{message} (error code {code})", code)
        return known(message)

    @classmethod
    def code_for(cls, error: BaseException) -> int:
        """Return the number with which a broker reports an exception; -1 for one that has none."""
        return error.code if isinstance(error, BrokerError) else UnknownError.code


EXTRA_OF = {
    **dict.fromkeys(("avro", "fastavro", "jinja2", "matplotlib", "numpy", "psutil"), "pipeline"),
    **dict.fromkeys(("pyspark", "py4j", "pyarrow", "pandas"), "spark"),
    "crc32c": "gateway",
    "deltalake": "warehouse",
    "hdfs_native": "hdfs",
    "prometheus_client": "metrics",
    **dict.fromkeys(("starlette", "uvicorn"), "ui"),
    **dict.fromkeys(("docker", "testcontainers"), "testcontainers"),
}
"""The extra that installs a package."""


class MissingExtraError(KafkaError, ImportError):
    """A package is missing that one of the extras installs."""


def missing_extra(error: ImportError, extras: str = "") -> MissingExtraError:
    """Return the error to raise for an import that failed: it names the package, and what to install."""
    package = (error.name or "").partition(".")[0]
    wanted = extras or EXTRA_OF.get(package, "pipeline")
    return MissingExtraError(f"{package} is not installed: {_how_to_install(wanted)}", name=package)


def _how_to_install(extras: str) -> str:
    """Return what to call: of what pip has installed it adds an extra without looking for the project elsewhere."""
    try:
        importlib.metadata.distribution("kafka2011")
    except importlib.metadata.PackageNotFoundError:
        return f"pip install '.[{extras}]' in a checkout of kafka2011"
    return f"pip install 'kafka2011[{extras}]'"
