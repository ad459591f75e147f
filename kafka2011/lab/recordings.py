"""Bytes of a running Kafka 0.7.2: requests of its client, answers of its broker, and a segment file."""

from __future__ import annotations

from importlib.resources import files

_DIRECTORY = files("kafka2011.lab") / "recorded"


def request(name: str) -> bytes:
    """Return what a client of 0.7.2 has sent."""
    return (_DIRECTORY / f"{name}.request.bin").read_bytes()


def response(name: str) -> bytes:
    """Return what a broker of 0.7.2 has answered to it; empty where it has closed the connection."""
    return (_DIRECTORY / f"{name}.response.bin").read_bytes()


def segment() -> bytes:
    """Return the segment file of the two messages `hello` and `kafka 0.7`."""
    return (_DIRECTORY / "segment.kafka").read_bytes()
