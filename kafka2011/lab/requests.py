"""Requests that the stages send, right and wrong ones."""

from __future__ import annotations

from struct import pack

from kafka2011.message.message_set import encode as message
from kafka2011.wire.protocol import (
    FetchRequest,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    encode_request,
)

__all__ = ["BARRIER", "BARRIER_ANSWER", "fetch", "frame", "message", "message_set", "multifetch", "offsets", "produce"]

BARRIER = encode_request(MultiFetchRequest(()))
"""A multifetch without parts: its answer proves that everything sent before it was handled."""
BARRIER_ANSWER = pack(">ih", 2, 0)
PLENTY = 1_000_000


def frame(request_type: int, body: bytes) -> bytes:
    """Return the frame of any request type with any body."""
    return pack(">ih", 2 + len(body), request_type) + body


def message_set(*payloads: bytes) -> bytes:
    """Return messages with magic 1 back to back."""
    return b"".join(message(payload) for payload in payloads)


def produce(topic: str, messages: bytes, partition: int = 0) -> bytes:
    """Return a produce request."""
    return encode_request(ProduceRequest(topic, partition, messages))


def multiproduce(*parts: tuple[str, bytes]) -> bytes:
    """Return a multiproduce request to partition 0 of topics."""
    return encode_request(MultiProduceRequest(tuple(ProduceRequest(topic, 0, data) for topic, data in parts)))


def fetch(topic: str, offset: int, max_bytes: int = PLENTY, partition: int = 0) -> bytes:
    """Return a fetch request."""
    return encode_request(FetchRequest(topic, partition, offset, max_bytes))


def multifetch(*parts: tuple[str, int, int]) -> bytes:
    """Return a multifetch request: topic, partition and offset of each part."""
    fetches = tuple(FetchRequest(topic, partition, offset, PLENTY) for topic, partition, offset in parts)
    return encode_request(MultiFetchRequest(fetches))


def offsets(topic: str, time_ms: int, max_count: int = 10, partition: int = 0) -> bytes:
    """Return an offsets request: -1 asks for the end, -2 for the beginning, else a time in ms."""
    return encode_request(OffsetsRequest(topic, partition, time_ms, max_count))
