"""Which partition a key belongs to (paper, section 3.2).

Partitions are numbered 0 to n - 1 in the order of (broker, partition), so a key moves when that list changes.
"""

from __future__ import annotations

import sys
from operator import mul
from typing import TYPE_CHECKING, Protocol

from kafka2011.message.crc import crc32
from kafka2011.producer.implementation import load_implementation

if TYPE_CHECKING:
    from kafka2011.config import ProducerConfig

_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"  # as memoryview reads it
_MULTIPLIER = 31
_INT32_RANGE = 1 << 32
_INT32_SIGN = 1 << 31
# One sum over all characters is several times as fast as a loop; long keys are summed in pieces of this length.
_CHUNK = 256
_POWERS = [pow(_MULTIPLIER, _CHUNK - 1 - index, _INT32_RANGE) for index in range(_CHUNK)]
_CHUNK_POWER = pow(_MULTIPLIER, _CHUNK, _INT32_RANGE)


class Partitioner(Protocol):
    """Chooses a partition for a key; partitioner.class names a subclass as `module:Class`, made without arguments."""

    def partition(self, key: object, num_partitions: int) -> int:
        """Return a number from 0 to `num_partitions` - 1. Called for every keyed send, by many threads at once."""


class DefaultPartitioner:
    """Chooses as Kafka 0.7 does: the absolute value of the key's hash, modulo the number of partitions.

    A str is hashed as Java's String.hashCode does it, bytes by their CRC-32, taken as an unsigned number. For the one
    hash whose absolute value Java cannot hold, -2147483648, 0.7 computes a negative partition and refuses the key;
    here it is 2147483648.
    """

    def partition(self, key: object, num_partitions: int) -> int:
        """Return the partition of a str or bytes key, less than `num_partitions`. Raises TypeError for other keys."""
        if isinstance(key, str):
            return abs(java_string_hash(key)) % num_partitions
        if isinstance(key, bytes | bytearray | memoryview):
            return crc32(bytes(key)) % num_partitions
        raise TypeError(
            f"a key is str or bytes, not {type(key).__name__}: set partitioner.class to partition by others"
        )


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode: the sum of c[i] * 31^(n-1-i) over UTF-16 code units, as an int32."""
    units = memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    first = len(units) % _CHUNK
    total = sum(map(mul, units[:first], _POWERS[_CHUNK - first :]))
    for start in range(first, len(units), _CHUNK):
        total = (total * _CHUNK_POWER + sum(map(mul, units[start : start + _CHUNK], _POWERS))) % _INT32_RANGE
    total = int(total) % _INT32_RANGE
    return total - _INT32_RANGE if total >= _INT32_SIGN else total


def own_partitioner(config: ProducerConfig) -> Partitioner:
    """Return the application's partitioner, or 0.7's. Raises ConfigError."""
    if not config.partitioner_class:
        return DefaultPartitioner()
    partitioner: Partitioner = load_implementation("partitioner.class", config.partitioner_class, "partition")
    return partitioner
