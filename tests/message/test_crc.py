"""CRC-32 by two implementations."""

from __future__ import annotations

import logging
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.errors import KafkaError
from kafka2011.message import crc

# Published values of CRC-32 (IEEE 802.3), and two that a running 0.7.2 wrote.
KNOWN = {
    b"": 0x00000000,
    b"123456789": 0xCBF43926,
    b"The quick brown fox jumps over the lazy dog": 0x414FA339,
    bytes(32): 0x190A55AD,
    b"\xff" * 32: 0xFF6CAB0B,
    b"hello": 0x3610A686,
    b"kafka 0.7": 0x3D9A95C4,
}


@pytest.mark.parametrize(("data", "value"), KNOWN.items(), ids=repr)
@pytest.mark.parametrize("implementation", [crc.crc32, crc.independent_crc32], ids=["zlib", "crcmod"])
def test_both_give_known_values(implementation: object, data: bytes, value: int) -> None:
    """Each implementation alone gives the published sums."""
    assert callable(implementation)
    assert implementation(data) == value


@given(st.binary(max_size=2000))
def test_both_agree(data: bytes) -> None:
    """Two implementations that share no code give one sum for anything."""
    assert crc.crc32(data) == crc.independent_crc32(data)


def test_the_self_check_passes(caplog: pytest.LogCaptureFixture) -> None:
    """On a sound machine it says nothing, but for a crcmod without its C code."""
    crc.self_check()
    assert len(caplog.records) == (0 if crc.crcmod_is_compiled() else 1)


@pytest.mark.parametrize("name", ["crc32", "independent_crc32"])
def test_a_wrong_implementation_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An implementation that gets the check value wrong is refused by name."""
    monkeypatch.setattr(crc, name, zlib.adler32)
    with pytest.raises(KafkaError, match="zlib" if name == "crc32" else "crcmod"):
        crc.self_check()


def test_implementations_that_differ_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Knowing the check value by heart is not enough."""
    monkeypatch.setattr(crc, "crc32", lambda data: crc.CHECK_VALUE if data == crc.CHECK_INPUT else 0)
    with pytest.raises(KafkaError, match="differ"):
        crc.self_check()


def test_slow_crcmod_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without its C code crcmod still works, and the log says that it will be slow."""
    monkeypatch.setattr(crc, "crcmod_is_compiled", lambda: False)
    with caplog.at_level(logging.WARNING):
        crc.self_check()
    assert "slow" in caplog.text


def test_others_are_checked_too() -> None:
    """What else computes CRCs here is compared, and named when it is wrong."""
    crc.self_check({"C": zlib.crc32})
    with pytest.raises(KafkaError, match="by C "):
        crc.self_check({"C": zlib.adler32})
    with pytest.raises(KafkaError, match="by C and by crcmod differ"):
        crc.self_check({"C": lambda data: zlib.crc32(data) if len(data) < 16 else 0})
