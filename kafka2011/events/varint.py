"""Avro's numbers: zigzag varints, seven bits in each byte, the lowest ones first."""

from __future__ import annotations


def write_varint(number: int) -> bytes:
    """Return the bytes of a number."""
    folded = number << 1 ^ number >> 63
    encoded = bytearray()
    while folded >= 0x80:
        encoded.append(folded & 0x7F | 0x80)
        folded >>= 7
    encoded.append(folded)
    return bytes(encoded)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    Raises IndexError if the bytes end within it, and ValueError if it has more bits than a long: without a limit, the
    time for a long run of bytes would grow with the square of its length.
    """
    folded = shift = 0
    while True:
        byte = data[at]
        at += 1
        folded |= (byte & 0x7F) << shift
        if byte < 0x80:
            return folded >> 1 ^ -(folded & 1), at
        shift += 7
        if shift == 63 and data[at] > 1:  # the tenth byte has the last bit
            raise ValueError("a number of more than 64 bits")
