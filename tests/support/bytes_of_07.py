"""What clients and a broker of Kafka 0.7.2 say to each other, byte for byte, and the segment files that come of it.

Nothing here calls the code under test. All integers are big-endian.
"""

from __future__ import annotations

from struct import pack

OFFSETS_OF_THE_END = -1
OFFSETS_OF_THE_START = -2


# Requests and answers: a frame is its size without these four bytes, an int16 that says what it is, and its body


def frame(kind: int, body: bytes = b"") -> bytes:
    return pack(">ih", 2 + len(body), kind) + body


def text(value: str) -> bytes:
    """Length int16, then the characters."""
    return pack(">h", len(value)) + value.encode()


def _produce(topic: str, messages: bytes, partition: int) -> bytes:
    return text(topic) + pack(">ii", partition, len(messages)) + messages


def _fetch(topic: str, offset: int, max_bytes: int, partition: int) -> bytes:
    return text(topic) + pack(">iqi", partition, offset, max_bytes)


def produce(topic: str, messages: bytes, partition: int = 0) -> bytes:
    """Type 0: topic, partition int32 (-1: the broker chooses), size int32, set."""
    return frame(0, _produce(topic, messages, partition))


def fetch(topic: str, offset: int, max_bytes: int = 1000, partition: int = 0) -> bytes:
    """Type 1: topic, partition int32, offset int64, most bytes int32."""
    return frame(1, _fetch(topic, offset, max_bytes, partition))


def multi_fetch(*fetches: tuple[str, int, int]) -> bytes:
    """Type 2: how many int16, then the bodies of as many fetches."""
    return frame(2, pack(">h", len(fetches)) + b"".join(_fetch(*each, 0) for each in fetches))


def multi_produce(*produces: tuple[str, bytes], partition: int = 0) -> bytes:
    """Type 3: how many int16, then the bodies of as many produces."""
    return frame(3, pack(">h", len(produces)) + b"".join(_produce(*each, partition) for each in produces))


def offsets(topic: str, time_ms: int, max_count: int, partition: int = 0) -> bytes:
    """Type 4: topic, partition int32, time int64, most offsets int32."""
    return frame(4, text(topic) + pack(">iqi", partition, time_ms, max_count))


def answer(body: bytes = b"", *, error: int = 0) -> bytes:
    """Error 0: none, 1: no such offset, 3: no such partition. To a multifetch, the body is the answers to its parts."""
    return frame(error, body)


def found_offsets(*values: int) -> bytes:
    """How many int32, then as many int64."""
    return answer(pack(">i", len(values)) + b"".join(pack(">q", value) for value in values))


# Messages: length int32 without these four bytes, magic 1, attributes (the codec), CRC-32 of the payload, payload

HELLO = bytes.fromhex("0000000b 01 00 3610a686") + b"hello"
KAFKA_07 = bytes.fromhex("0000000f 01 00 3d9a95c4") + b"kafka 0.7"
ONE = bytes.fromhex("00000009 01 00 7a6c86f1") + b"one"
PAYLOADS = [b"hello", b"kafka 0.7"]
PAIR = HELLO + KAFKA_07

_GZIP_HEADER = bytes.fromhex("1f8b 08 00 00000000 00 ff")
"""Magic, deflate, no flags, no time, no hint of a level, no operating system."""
PAIR_GZIP = (
    bytes.fromhex("0000003c 01 01 d9475ef2")
    + _GZIP_HEADER
    + bytes.fromhex("636060e06664301358d69691 9a9393cfc0c0c0cfc8603b6b ea91ecc4b4ec4405033d7300")  # PAIR, deflated
    + bytes.fromhex("bb71b78e 22000000")  # its CRC-32 and its size 34, both little-endian
)
ONE_GZIP = (
    bytes.fromhex("00000027 01 01 717276b7")
    + _GZIP_HEADER
    + bytes.fromhex("636060e06464a8ca69fb989f970a00")
    + bytes.fromhex("5c526556 0d000000")
)
PAIR_SNAPPY = (
    bytes.fromhex("0000003e 01 02 39130495")
    + (b"\x82SNAPPY\x00" + bytes.fromhex("00000001 00000001"))  # snappy-java's stream: magic, version, oldest reader's
    + bytes.fromhex("00000024 22 84")  # a block of 36 bytes: 34 when opened, the next 34 as they are
    + PAIR
)

SEGMENTS = {"cap-0": PAIR, "capgz-0": PAIR_GZIP, "capsn-0": PAIR_SNAPPY}
"""What a broker's logs hold after PRODUCED, by directory."""


# All that a client sends on one connection

PRODUCED: dict[str, bytes] = {
    "produce_nocompression_2msgs": produce("cap", PAIR),
    "produce_gzip_2msgs": produce("capgz", PAIR_GZIP),
    "produce_snappy_2msgs": produce("capsn", PAIR_SNAPPY),
    "produce_nocompression_2msgs_random_partition": produce("caprand", PAIR, -1),
    "multiproduce_nocompression_2topics": multi_produce(("cap2", PAIR), ("cap3", ONE)),
    "multiproduce_gzip_2topics": multi_produce(("cap2gz", PAIR_GZIP), ("cap3gz", ONE_GZIP)),
    "highlevel_producer_sync_send_2msgs": produce("caphl", PAIR, -1),
    "highlevel_producer_async_2msgs_batch2": multi_produce(("caphla", PAIR), partition=-1),
}
"""Nothing answers these."""

ANSWERED: dict[str, tuple[bytes, bytes]] = {
    "fetch_nocompression_2msgs": (fetch("cap", 0), answer(PAIR)),
    "fetch_gzip_2msgs": (fetch("capgz", 0), answer(PAIR_GZIP)),
    "fetch_snappy_2msgs": (fetch("capsn", 0), answer(PAIR_SNAPPY)),
    "fetch_truncated_maxsize_24": (fetch("cap", 0, 24), answer(PAIR[:24])),
    "fetch_maxsize_too_small_10": (fetch("cap", 0, 10), answer(PAIR[:10])),
    "fetch_at_log_end": (fetch("cap", 34), answer()),
    "fetch_offset_out_of_range": (fetch("cap", 99_999), answer(error=1)),
    "fetch_unknown_topic": (fetch("nosuchtopic", 0), answer()),
    "fetch_wrong_partition": (fetch("cap", 0, partition=7), answer(error=3)),
    "multifetch_2topics_nocompression_and_gzip": (
        multi_fetch(("cap", 0, 1000), ("capgz", 0, 1000)),
        answer(answer(PAIR) + answer(PAIR_GZIP)),
    ),
    "multifetch_ok_and_out_of_range_and_unknown_topic": (
        multi_fetch(("cap", 0, 1000), ("cap", 99_999, 1000), ("nosuchtopic", 0, 1000)),
        answer(answer(PAIR) + answer(error=1) + answer()),
    ),
    "offsets_latest_max1": (offsets("cap", OFFSETS_OF_THE_END, 1), found_offsets(34)),
    "offsets_latest_max10": (offsets("cap", OFFSETS_OF_THE_END, 10), found_offsets(34, 0)),
    "offsets_earliest_max1": (offsets("cap", OFFSETS_OF_THE_START, 1), found_offsets(0)),
    "offsets_time_1_before_everything": (offsets("cap", 1, 10), found_offsets()),
    "offsets_time_now_max10": (offsets("cap", 1_795_209_931_073, 10), found_offsets(0)),
    "offsets_unknown_topic_latest": (offsets("nosuchtopic", OFFSETS_OF_THE_END, 1), found_offsets(0)),
    # A consumer group's member: it asks where the log starts, then it fetches again and again.
    "highlevel_consumer_zk": (offsets("cap", OFFSETS_OF_THE_START, 1), found_offsets(0)),
    "highlevel_consumer_zk.conn1": (
        multi_fetch(("cap", 0, 1 << 20)) + 13 * multi_fetch(("cap", 34, 1 << 20)),
        answer(answer(PAIR)) + 13 * answer(answer()),
    ),
}
"""What is sent, and what a broker that got PRODUCED answers."""

CLOSED: dict[str, bytes] = {
    "offsets_wrong_partition": offsets("cap", OFFSETS_OF_THE_END, 1, 7),
    "offsets_wrong_partition.conn1": offsets("cap", OFFSETS_OF_THE_END, 1, 7),
}
"""Where the broker closes the connection without a word."""
