"""CRC-32 of a payload, computed by two independent implementations.

zlib serves the hot path, except in the C code, which has its own (`kafka2011.message.runs`). crcmod, which derives its
tables from the polynomial alone, proves both right at start and repeats the sums in `dump-log --verify`. (Paper,
section 3.3: a CRC for each message against corruption.)
"""

from __future__ import annotations

import logging
import sys
import zlib
from typing import TYPE_CHECKING

import crcmod

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

POLYNOMIAL = 0x104C11DB7
"""CRC-32 of IEEE 802.3, bit-reflected, which java.util.zip.CRC32 computes for Kafka 0.7."""

CHECK_INPUT = b"123456789"
CHECK_VALUE = 0xCBF43926

crc32: Callable[[bytes | memoryview], int] = zlib.crc32
"""The CRC of the hot path: zlib's, about four times as fast as crcmod's C code at 200 bytes."""

independent_crc32: Callable[[bytes], int] = crcmod.mkCrcFun(POLYNOMIAL, initCrc=0, rev=True, xorOut=0xFFFFFFFF)
"""The same sum by crcmod."""


def crcmod_is_compiled() -> bool:
    """Say whether crcmod runs its C code; built without a compiler, it falls back to slow Python."""
    return "crcmod._crcfunext" in sys.modules


def self_check(others: Mapping[str, Callable[[bytes], int]] | None = None) -> None:
    """Compare both implementations, and others by name, with the published check value and with one another.

    Raises KafkaError when one of them is wrong: nothing written after that could be trusted.
    """
    implementations = {"zlib": crc32, "crcmod": independent_crc32, **(others or {})}
    for name, implementation in implementations.items():
        value = implementation(CHECK_INPUT)
        if value != CHECK_VALUE:
            raise KafkaError(f"CRC-32 by {name} of {CHECK_INPUT!r} is {value:#010x} instead of {CHECK_VALUE:#010x}")
    sample = bytes(range(256)) * 4
    for name, implementation in implementations.items():
        if implementation(sample) != independent_crc32(sample):
            raise KafkaError(f"CRC-32 by {name} and by crcmod differ")
    if not crcmod_is_compiled():
        logger.warning("crcmod was built without a C compiler: dump-log --verify will be slow")
