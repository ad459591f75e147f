"""From what an application sends to the bytes of sets: encoding, cutting, compressing."""

from __future__ import annotations

import gzip
import os

import pytest

from kafka2011.config import ProducerConfig
from kafka2011.errors import ConfigError, MessageSizeTooLargeError
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, scan
from kafka2011.producer.encoder import MAX_SET_BYTES, SetEncoder, payloads_of, pieces
from kafka2011.producer.implementation import load_implementation
from kafka2011.producer.producer_connection import BARRIER


def encoder(**settings: object) -> SetEncoder:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return SetEncoder(ProducerConfig.from_properties({"broker.list": "0:host:1", **given}))


class Upper:
    """An application's encoder."""

    def encode(self, value: object) -> bytes:
        return str(value).upper().encode()


class FastGzip:
    """An application's compressor."""

    codec = Codec.GZIP

    def compress(self, data: bytes) -> bytes:
        return gzip.compress(data, 1)


class OwnCodec(FastGzip):
    codec = 3  # type: ignore[assignment]


def test_the_barrier_is_eight_bytes() -> None:
    """Size 4, type 2 (multifetch), 0 parts."""
    assert bytes.fromhex("00000004 0002 0000") == BARRIER


def test_what_send_takes() -> None:
    """One payload of any kind of bytes, or several of them."""
    assert payloads_of(b"a") == [b"a"]
    assert payloads_of(bytearray(b"a")) == [b"a"]
    assert payloads_of(memoryview(b"a")) == [b"a"]
    assert payloads_of([b"a", bytearray(b"b")]) == [b"a", b"b"]
    assert payloads_of(payload for payload in (b"a", b"b")) == [b"a", b"b"]
    assert payloads_of([]) == []
    for wrong in ("text", 1, None, ["text"], [b"a", None]):
        with pytest.raises(TypeError, match="a payload is bytes, not"):
            payloads_of(wrong)
    with pytest.raises(TypeError, match="a payload is bytes, not dict"):  # its keys are no payloads
        payloads_of({"k": 1})


def test_an_encoder_turns_values_into_payloads() -> None:
    """A list is several values, anything else is one."""
    assert payloads_of("a", Upper()) == [b"A"]
    assert payloads_of(["a", 1], Upper()) == [b"A", b"1"]
    assert payloads_of({"k": 1}, Upper()) == [b"{'K': 1}"]


def test_wrappers_that_would_be_too_large_are_split_in_order() -> None:
    """Each outer payload stays within max.message.size, and the messages come out as they went in."""
    payloads = [os.urandom(100) for _ in range(100)]
    data = encoder(compression_codec=1, max_message_size=1000).encode("t", payloads)
    assert list(MessageSet.from_bytes(data)) == payloads
    assert scan(data).largest_payload_bytes <= 1000
    assert len(scan(data).wrappers) > 1


def test_a_payload_that_compression_makes_too_large_goes_as_it_is() -> None:
    """The limit is on what is sent."""
    payload = os.urandom(1000)
    data = encoder(compression_codec=2, max_message_size=1000).encode("t", [payload])
    assert data == bytes(MessageSet([payload]))


def test_a_wrapper_of_just_the_largest_size_is_not_split() -> None:
    """What a broker takes is sent as it is."""
    payloads = [b"x" * 100] * 10
    wrapper = encoder(compression_codec=1).encode("t", payloads)
    size = scan(wrapper).largest_payload_bytes
    assert encoder(compression_codec=1, max_message_size=size).encode("t", payloads) == wrapper
    assert len(scan(encoder(compression_codec=1, max_message_size=size - 1).encode("t", payloads)).wrappers) == 2


def test_payloads_have_a_largest_size() -> None:
    """Just that is allowed, a byte more is not; a list of nothing is always."""
    exact = encoder(max_message_size=10)
    for allowed in ([], [bytes(10)], [b"", bytes(10), b"x"]):
        exact.check("t", allowed)
        exact.check_set("t", MessageSet(allowed))
    with pytest.raises(MessageSizeTooLargeError, match=r"11 bytes for topic t exceeds max\.message\.size 10"):
        exact.check("t", [b"", bytes(11)])
    with pytest.raises(MessageSizeTooLargeError):
        exact.check_set("t", MessageSet([bytes(11)]))
    encoder(max_message_size=0).check("t", [])


def test_an_own_compressor_serves_its_codec() -> None:
    """What it makes is an ordinary wrapper of that codec."""
    name = f"{__name__}:FastGzip"
    data = encoder(compressor_class=name).encode("t", [b"x" * 100] * 10)
    assert scan(data).wrappers[0].codec == Codec.GZIP
    assert list(MessageSet.from_bytes(data)) == [b"x" * 100] * 10
    with pytest.raises(ConfigError, match=r"compressor\.class: .* codec 1, but compression\.codec is 2"):
        encoder(compressor_class=name, compression_codec=2)
    with pytest.raises(ConfigError, match=r"codec 3 instead of 1 \(gzip\) or 2 \(snappy\)"):
        encoder(compressor_class=f"{__name__}:OwnCodec")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("no.such.module:Class", "module 'no.such.module' .* cannot be imported"),
        ("gzip:NoSuchClass", "has no 'NoSuchClass'"),
        ("gzip:GzipFile", "cannot be created without arguments"),
        ("decimal:Decimal", "has no method partition"),
    ],
)
def test_what_cannot_be_loaded_is_a_config_error(name: str, error: str) -> None:
    """It starts with the setting's name."""
    with pytest.raises(ConfigError, match=f"^partitioner.class: .*{error}"):
        load_implementation("partitioner.class", name, "partition")


def test_large_sends_are_cut() -> None:
    """By number and by size; nothing at all is one empty piece, which creates the topic."""
    assert list(pieces([], 10)) == [[]]
    assert list(pieces([b"a", b"b", b"c"], 2)) == [[b"a", b"b"], [b"c"]]
    half = b"x" * (MAX_SET_BYTES // 2)
    assert [len(piece) for piece in pieces([half] * 5, 10)] == [2, 2, 1]
    whole = b"x" * (MAX_SET_BYTES + 1)
    assert [len(piece) for piece in pieces([whole, b"", whole], 10)] == [1, 1, 1]
