"""What can go wrong with a benchmark."""

from __future__ import annotations

from kafka2011.errors import KafkaError


class BenchmarkError(KafkaError):
    """A figure cannot be given: a process of the run failed, or messages are missing."""
