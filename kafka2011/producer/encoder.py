"""From what an application sends to the bytes of a message set: payloads, size limits, compression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from kafka2011.errors import ConfigError, MessageSizeTooLargeError
from kafka2011.message import runs
from kafka2011.message.compression import Codec, compress
from kafka2011.message.message_set import MessageSet, encode
from kafka2011.message.topic import validate_topic
from kafka2011.producer.implementation import load_implementation
from kafka2011.wire.protocol import topic_field

if TYPE_CHECKING:
    from kafka2011.config import ProducerConfig

MAX_SET_BYTES = 1024 * 1024
"""Payloads in one set: far below any broker's max.socket.request.bytes, and large enough to be efficient."""

_MAX_REMEMBERED_TOPICS = 10_000


class Encoder(Protocol):
    """Is the base of encoders, which turn a value into a payload; serializer.class names a subclass.

    It is made without arguments.
    """

    def encode(self, value: Any) -> bytes:
        """Return the payload of `value`; called in the thread that sends."""


class Compressor(Protocol):
    """Is the base of compressors that replace the built-in codec; compressor.class names a subclass.

    It is made without arguments.

    `codec` is what consumers will open it with: Codec.GZIP or Codec.SNAPPY.
    """

    codec: Codec

    def compress(self, data: bytes) -> bytes:
        """Return `data` as the payload of a wrapper message."""


@lru_cache(_MAX_REMEMBERED_TOPICS)
def checked_topic_field(topic: str) -> bytes:
    """Return a topic as requests contain it, checked and encoded once. Raises InvalidTopicError."""
    validate_topic(topic)
    return topic_field(topic)


def own_encoder(config: ProducerConfig) -> Encoder | None:
    """Return the application's encoder, or None for bytes as they are. Raises ConfigError."""
    if not config.serializer_class:
        return None
    encoder: Encoder = load_implementation("serializer.class", config.serializer_class, "encode")
    return encoder


def payloads_of(messages: object, encoder: Encoder | None = None) -> list[bytes]:
    """Return the payloads of what `send` takes, except a MessageSet: one value, or several.

    Several are any iterable of bytes; with an encoder, whose values may be iterable themselves, only a list, a tuple
    or an iterator. Raises TypeError for text without an encoder: the payload of a message is bytes.
    """
    if encoder is not None:
        several = messages if isinstance(messages, list | tuple | Iterator) else [messages]
        return [_encoded(encoder, value) for value in several]
    if isinstance(messages, bytes):
        return [messages]
    if isinstance(messages, bytearray | memoryview):
        return [bytes(messages)]
    if isinstance(messages, Iterable) and not isinstance(messages, str | MessageSet | Mapping):
        payloads = list(messages)
        if runs.chosen.measure(payloads) is not None:  # all are bytes
            return payloads
        return [_as_bytes(payload) for payload in payloads]
    raise _no_payload(messages)


def measured(payloads: list[bytes]) -> tuple[int, int]:
    """Return how many bytes payloads have that `payloads_of` returned, and the largest of them."""
    sizes = runs.chosen.measure(payloads)
    assert sizes is not None, "they are bytes"
    return sizes


def _encoded(encoder: Encoder, value: object) -> bytes:
    return _as_bytes(encoder.encode(value))


def _as_bytes(payload: object) -> bytes:
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise _no_payload(payload)


def _no_payload(value: object) -> TypeError:
    return TypeError(f"a payload is bytes, not {type(value).__name__}: encode it first, or set serializer.class")


def pieces(payloads: list[bytes], max_messages: int) -> Iterator[list[bytes]]:
    """Cut payloads into batches of at most `max_messages` and about MAX_SET_BYTES; no payloads give one empty piece."""
    if len(payloads) <= max_messages and measured(payloads)[0] <= MAX_SET_BYTES:
        yield payloads
        return
    start = size_bytes = 0
    for index, payload in enumerate(payloads):
        size_bytes += len(payload)
        if index > start and (size_bytes > MAX_SET_BYTES or index - start == max_messages):
            yield payloads[start:index]
            start, size_bytes = index, len(payload)
    yield payloads[start:]


class SetEncoder:
    """Makes message sets whose outer payloads never exceed max.message.size.

    A broker of Kafka 0.7 silently drops a set with a larger payload, so a wrapper that would be too large is split into
    several, one after the other in the same set. A single payload that compression makes larger than allowed is sent
    uncompressed.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self.max_message_bytes = config.max_message_size
        self._codec = config.compression_codec
        self._topics = frozenset(config.compressed_topics)
        self._compressor: Compressor | None = None
        if config.compressor_class:
            self._compressor = _load_compressor(config.compressor_class, self._codec)
            self._codec = self._compressor.codec

    def check(self, topic: str, payloads: list[bytes]) -> None:
        """Raise MessageSizeTooLargeError if one of the payloads exceeds max.message.size."""
        self._check_bytes(topic, len(payloads[0]) if len(payloads) == 1 else measured(payloads)[1])

    def check_set(self, topic: str, message_set: MessageSet) -> None:
        """Raise MessageSizeTooLargeError if one of a ready set's outer payloads exceeds max.message.size."""
        self._check_bytes(topic, message_set.largest_payload_bytes)

    def compresses(self, topic: str) -> bool:
        """Say whether sets of a topic are compressed."""
        return self._codec is not Codec.NONE and (not self._topics or topic in self._topics)

    def encode(self, topic: str, payloads: list[bytes]) -> bytes:
        """Return the set's bytes. The payloads were checked."""
        if not payloads or not self.compresses(topic):
            return bytes(MessageSet(payloads))
        return b"".join(self._wrapped(payloads))

    def _wrapped(self, payloads: list[bytes]) -> Iterator[bytes]:
        inner = bytes(MessageSet(payloads))
        payload = compress(self._codec, inner) if self._compressor is None else self._compressor.compress(inner)
        if len(payload) <= self.max_message_bytes:
            yield encode(payload, self._codec)
        elif len(payloads) == 1:
            yield inner
        else:
            middle = len(payloads) // 2
            yield from self._wrapped(payloads[:middle])
            yield from self._wrapped(payloads[middle:])

    def _check_bytes(self, topic: str, largest_bytes: int) -> None:
        if largest_bytes > self.max_message_bytes:
            raise MessageSizeTooLargeError(
                f"a payload of {largest_bytes} bytes for topic {topic} exceeds max.message.size"
                f" {self.max_message_bytes}; nothing was sent"
            )


def _load_compressor(name: str, wanted: Codec) -> Compressor:
    compressor: Compressor = load_implementation("compressor.class", name, "compress")
    codec = getattr(compressor, "codec", None)
    if codec not in {Codec.GZIP, Codec.SNAPPY}:
        raise ConfigError(f"compressor.class: {name!r} has codec {codec!r} instead of 1 (gzip) or 2 (snappy)")
    if wanted not in {Codec.NONE, codec}:
        raise ConfigError(f"compressor.class: {name!r} has codec {codec}, but compression.codec is {int(wanted)}")
    return compressor
