"""Frames: what is read, refused and written; test_against_kio.py compares all messages with another codec."""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.gateway.protocol.compiler import MOST_ELEMENTS
from kafka2011.gateway.protocol.errors import ErrorCode, MalformedRequestError, UnknownRequestError
from kafka2011.gateway.protocol.fields import Api
from kafka2011.gateway.protocol.frames import OFFERED, TABLES, read_request, reader_of, write_response, writer_of
from kafka2011.gateway.protocol.primitives import JOINED_BYTES, MOST_TAGS
from tests.gateway.protocol.bodies import EVERY, every_version, random_body, request_frame, sample_frames
from tests.planted.patches import read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.planted.patches import Defect

PRODUCE = TABLES[Api.PRODUCE]
METADATA = TABLES[Api.METADATA]


def produce_body(records: bytes) -> dict[str, Any]:
    return {"acks": 1, "topic_data": [{"name": "clicks", "partition_data": [{"index": 3, "records": records}]}]}


def header(api: int, version: int, client_id: bytes = b"c") -> bytes:
    return struct.pack(">hhih", api, version, 7, len(client_id)) + client_id


# Reading -------------------------------------------------------------------------------------------------------------


def test_a_request_has_its_header_and_a_body_by_name() -> None:
    frame = header(Api.LIST_OFFSETS, 1) + bytes.fromhex("ffffffff 00000001 0001 74 00000001 00000002 ffffffffffffffff")
    request = read_request(frame)
    assert request[:4] == (Api.LIST_OFFSETS, 1, 7, "c")
    assert request.body == {
        "replica_id": -1,
        "topics": [{"name": "t", "partitions": [{"partition_index": 2, "timestamp": -1}]}],
    }


def test_records_are_a_view_of_the_frame() -> None:
    """Large sets are not copied by reading."""
    for version in PRODUCE.versions:
        frame = request_frame(PRODUCE, version, produce_body(b"records"))
        for data in (frame, memoryview(frame)):
            records = read_request(data).body["topic_data"][0]["partition_data"][0]["records"]
            assert records == b"records"
            assert getattr(records, "obj", None) is frame


def test_what_is_not_offered_is_an_error_of_its_own() -> None:
    for api, version in ((4, 0), (-1, 0), (999, 3), (Api.PRODUCE, 2), (Api.PRODUCE, 10), (Api.HEARTBEAT, 0)):
        with pytest.raises(UnknownRequestError) as caught:
            read_request(header(api, version))
        assert (caught.value.key, caught.value.version, caught.value.correlation_id) == (api, version, 7)


def test_an_unknown_version_of_api_versions_can_be_answered() -> None:
    """Whatever its header looks like; a client of a later Kafka asks so first."""
    with pytest.raises(UnknownRequestError) as caught:
        read_request(struct.pack(">hhi", Api.API_VERSIONS, 99, 41))
    body = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": []}
    answer = b"".join(write_response(Api.API_VERSIONS, 0, caught.value.correlation_id, body))
    assert answer.hex(" ", 2) == "0000 000a 0000 0029 0023 0000 0000"


def test_a_request_that_ends_too_early_is_refused() -> None:
    """Wherever it ends, but for bytes that are behind the body, which are ignored."""
    for api, version in every_version():
        body = random_body(TABLES[api].request, version, Random(1))
        frame = request_frame(TABLES[api], version, body)
        assert read_request(frame + b"more", EVERY).body == body
        for end in (*range(min(len(frame), 120)), *range(120, len(frame), 1997), len(frame) - 1):
            with pytest.raises(MalformedRequestError):
                read_request(frame[:end], EVERY)


def test_null_is_refused_where_it_is_not_allowed() -> None:
    """All topics are null from version 1 on, and none in version 0; a client id may always be null."""
    for version in METADATA.versions:
        is_flexible = METADATA.is_flexible(version)
        null = b"\0" if is_flexible else b"\xff\xff\xff\xff"
        frame = struct.pack(">hhih", Api.METADATA, version, 7, -1) + b"\0" * is_flexible + null + b"\0" * 8
        if version == 0:
            with pytest.raises(MalformedRequestError, match="topics is null"):
                read_request(frame)
        else:
            request = read_request(frame)
            assert request.body["topics"] is None
            assert request.client_id is None


def test_optional_fields_are_skipped() -> None:
    """In the header, in structs and at the end."""
    plain = header(Api.METADATA, 9) + bytes.fromhex("00 02 02 74 00 01 00 00 00")
    tagged = header(Api.METADATA, 9) + bytes.fromhex(
        "02 05 02 aaaa 06 00 02 02 74 01 00 01 ff 01 00 00 02 00 00 8101 00"
    )
    assert read_request(tagged).body == read_request(plain).body
    assert read_request(plain).body["topics"] == [{"name": "t"}]


def test_optional_fields_that_claim_too_much_are_refused() -> None:
    """In the header and at the end, where nothing else would miss their bytes."""
    too_many = f"{MOST_TAGS + 1:02x}" + "05 01 aa" * (MOST_TAGS + 1)
    for tags in ("01 05 03 aaaa", "01 05", "03 05 01 aa", "ffffffff0f", "80808080808080", too_many):
        for before in ("", "00 02 61 02 62"):
            with pytest.raises(MalformedRequestError):
                read_request(header(Api.API_VERSIONS, 3) + bytes.fromhex(before + tags))


def test_text_that_is_not_utf8_is_replaced_as_in_kafka() -> None:
    request = read_request(header(Api.METADATA, 1, b"\xff") + bytes.fromhex("00000001 0002 c328"))
    assert (request.client_id, request.body["topics"]) == ("\ufffd", [{"name": "\ufffd("}])


def test_a_string_longer_than_kafka_allows_is_refused() -> None:
    """In versions whose lengths could say more."""
    for length in ("8180 02", "ffffffff0f"):
        with pytest.raises(MalformedRequestError, match="client_software_name is longer than 32767 bytes"):
            read_request(header(Api.API_VERSIONS, 3) + b"\0" + bytes.fromhex(length) + bytes(40_000))


def test_a_count_beyond_the_bytes_that_are_left_is_refused() -> None:
    """Before anything is made of it."""
    with pytest.raises(MalformedRequestError, match=r"topics claims 2147483647 elements"):
        read_request(header(Api.METADATA, 1) + struct.pack(">i", 2**31 - 1) + bytes(100))
    with pytest.raises(MalformedRequestError, match="partitions claims 2 elements"):
        read_request(header(Api.FETCH, 7) + bytes(25) + struct.pack(">ihi", 1, 0, 2) + bytes(30))


def test_all_arrays_together_are_limited() -> None:
    """A frame of empty structs would otherwise take a hundred times its size in memory."""
    topics = b"\0\0" * MOST_ELEMENTS
    frame = header(Api.METADATA, 1) + struct.pack(">i", MOST_ELEMENTS) + topics
    assert len(read_request(frame).body["topics"]) == MOST_ELEMENTS
    frame = header(Api.METADATA, 1) + struct.pack(">i", MOST_ELEMENTS + 1) + topics + b"\0\0"
    with pytest.raises(MalformedRequestError, match="topics claims 100001 elements"):
        read_request(frame)
    partitions = struct.pack(">i", MOST_ELEMENTS // 2) + bytes(16 * (MOST_ELEMENTS // 2))
    frame = header(Api.FETCH, 4) + bytes(17) + struct.pack(">i", 2) + 2 * (b"\0\0" + partitions)
    with pytest.raises(MalformedRequestError):
        read_request(frame)


def test_a_frame_of_any_kind_is_read_as_bytes_or_as_a_view() -> None:
    for frame in sample_frames(seed=2):
        assert read_request(memoryview(frame), EVERY) == read_request(frame, EVERY)


# Writing -------------------------------------------------------------------------------------------------------------


def test_large_records_are_not_copied() -> None:
    large, small = bytes(JOINED_BYTES + 1), b"small"
    partitions = [{"partition_index": 0, "records": [large, small]}, {"partition_index": 1, "records": small}]
    parts = write_response(Api.FETCH, 12, 7, {"responses": [{"topic": "clicks", "partitions": partitions}]})
    assert [part is large for part in parts] == [False, True, False]
    assert int.from_bytes(parts[0][:4]) == sum(map(len, parts)) - 4
    assert bytes(parts[2]).count(small) == 2


def test_records_are_empty_rather_than_null() -> None:
    """Kafka's brokers send no null here, and not every client would take it."""
    body = {"responses": [{"topic": "t", "partitions": [{}]}]}
    for version in OFFERED[Api.FETCH]:
        end = b"\x01\0\0\0" if TABLES[Api.FETCH].is_flexible(version) else bytes(4)
        assert b"".join(write_response(Api.FETCH, version, 7, body)).endswith(end)


def test_a_name_that_is_in_no_version_is_refused() -> None:
    """Or the misspelt value would become a default."""
    with pytest.raises(KeyError, match="no fields of this message: eror_code"):
        write_response(Api.INIT_PRODUCER_ID, 0, 7, {"eror_code": 3})
    with pytest.raises(KeyError, match="no fields of this message: eror_code"):
        write_response(Api.FETCH, 4, 7, {"responses": [{"partitions": [{"eror_code": 3}]}]})
    assert write_response(Api.FETCH, 4, 7, {"error_code": 3}) == write_response(Api.FETCH, 4, 7, {})


def test_null_is_not_written_where_it_is_not_allowed() -> None:
    with pytest.raises(TypeError, match="host must not be null"):
        write_response(Api.FIND_COORDINATOR, 1, 7, {"host": None})


def test_only_flexible_responses_have_optional_fields_in_their_header() -> None:
    """But never those to ApiVersions: a client may not know the version that answers."""
    sizes = {version: sum(map(len, write_response(Api.INIT_PRODUCER_ID, version, 7, {}))) for version in (1, 2)}
    assert sizes[2] == sizes[1] + 2
    assert b"".join(write_response(Api.API_VERSIONS, 3, 7, {})).hex() == "0000000c000000070000010000000000"


# Defects -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _compiled_again() -> Iterator[None]:
    """Forget the compiled readers and writers, before a defect and after it."""
    reader_of.cache_clear()
    writer_of.cache_clear()
    yield
    reader_of.cache_clear()
    writer_of.cache_clear()


@pytest.mark.usefixtures("_compiled_again")
@pytest.mark.parametrize("defect", read_defects("gateway_protocol").values(), ids=lambda defect: defect.name)
def test_each_defect_is_noticed(defect: Defect) -> None:
    """By the check that it names."""
    check: Callable[[], None] = globals()[defect.shows["noticed_by"]]
    with planted(defect), pytest.raises((AssertionError, pytest.fail.Exception, MalformedRequestError)):
        check()
