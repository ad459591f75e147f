"""Decoding whole batches at once gives what decoding one by one gives, for good bytes and for bad ones."""

from __future__ import annotations

import random
import struct
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafka2011.events.codec import EventEncoder
from kafka2011.events.schemas import EventSchema, KnownSchemas, event_schema
from kafka2011.spark.source_columns import arrow_schema as source_schema
from kafka2011.warehouse.rows.decode import BatchDecoder

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = "things"
KINDS = ("boolean", "int", "long", "float", "double", "string", "bytes")
FLAT = event_schema(
    "Flat",
    *({"name": f"a_{kind}", "type": kind} for kind in KINDS),
    *({"name": f"n_{kind}", "type": ["null", kind], "default": None} for kind in KINDS),
)
NEWER = event_schema(
    "Flat",
    *FLAT.document["fields"][4:],
    {"name": "more", "type": "string", "default": "x"},
    {"name": "maybe", "type": ["null", "long"], "default": None},
)


def event(chance: random.Random) -> dict[str, Any]:
    def value(kind: str) -> Any:
        text = "".join(chance.choice("aü€😀") for _ in range(chance.choice((0, 3, 40, 70))))
        return {
            "boolean": chance.random() < 0.5,
            "int": chance.choice((0, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31))),
            "long": chance.choice((1, 2**62, -(2**63), 2**63 - 1, 2**55, -(2**34))),
            "float": struct.unpack("<f", struct.pack("<f", chance.random()))[0],
            "double": chance.random(),
            "string": text,
            "bytes": text.encode() + b"\xff",
        }[kind]

    found = {f"a_{kind}": value(kind) for kind in KINDS}
    found |= {f"n_{kind}": value(kind) if chance.random() < 0.5 else None for kind in KINDS}
    times = {"time": chance.randrange(10**15), "published_at": chance.randrange(-(10**12), 10**15)}
    return {**times, "server": "s", "id": str(uuid.UUID(int=chance.getrandbits(128))), **found}


def batch_of(payloads: Sequence[bytes]) -> pa.RecordBatch:
    rows = len(payloads)
    places = [[1] * rows, [2] * rows, range(rows), range(1, rows + 1), [0] * rows]
    columns = [payloads, [TOPIC] * rows, *places]
    schema = source_schema()
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def decoder_of(newest: EventSchema, *others: EventSchema) -> BatchDecoder:
    return BatchDecoder(TOPIC, KnownSchemas({TOPIC: newest}, others), 1)


def payloads_of(schema: EventSchema, count: int, seed: int = 1) -> list[bytes]:
    chance = random.Random(seed)
    encoder = EventEncoder(KnownSchemas({TOPIC: schema}))
    return encoder.encode_all(TOPIC, [event(chance) for _ in range(count)])


@pytest.mark.parametrize("newest", [FLAT, NEWER])
def test_good_events(newest: EventSchema) -> None:
    """Of all flat types, and with fields that the newest schema has added; slices of batches too."""
    decoder = decoder_of(newest, FLAT)
    batch = batch_of(payloads_of(FLAT, 300))
    for part in (batch, batch.slice(17, 100), batch.slice(299), batch.slice(0, 1)):
        whole = decoder._decode_whole(part)
        assert whole is not None
        each, refused = decoder._decode_each(part)
        assert refused == []
        assert whole.equals(each)


def test_bad_bytes_are_never_rows_that_one_by_one_they_are_not() -> None:
    """Bytes changed, left out and added, anywhere: either the same rows come, or none at all."""
    decoder = decoder_of(FLAT)
    chance = random.Random(7)
    exact = 0
    for seed in range(300):
        payloads = payloads_of(FLAT, 4, seed)
        victim = chance.randrange(4)
        at = chance.randrange(len(payloads[victim]))
        payload = bytearray(payloads[victim])
        match seed % 3:
            case 0:
                payload[at] = chance.randrange(256)
            case 1:
                del payload[at : at + chance.randrange(1, 4)]
            case _:
                payload[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 4)))
        payloads[victim] = bytes(payload)
        batch = batch_of(payloads)
        whole = decoder._decode_whole(batch)
        if whole is not None:
            each, refused = decoder._decode_each(batch)
            assert refused == []
            assert whole.equals(each)
            exact += 1
    assert 0 < exact < 300


def test_a_short_event_and_the_next_one_do_not_make_up_for_each_other() -> None:
    """The bytes that one lacks are those that the next one has too many of."""
    decoder = decoder_of(FLAT)
    one, two, three = payloads_of(FLAT, 3)
    assert decoder._decode_whole(batch_of([one[:-5], one[-5:] + two, three])) is None


@pytest.mark.parametrize("kind", [["long", "null"], {"type": "array", "items": "int"}, ["null", "int", "string"]])
def test_what_is_not_flat_is_decoded_one_by_one(kind: Any) -> None:
    schema = event_schema("Thing", {"name": "it", "type": kind})
    value = [1] if isinstance(kind, dict) else 1
    header = {"time": 0, "published_at": 0, "server": "s", "id": str(uuid.uuid4())}
    payloads = EventEncoder(KnownSchemas({TOPIC: schema})).encode_all(TOPIC, [{**header, "it": value}])
    decoder = decoder_of(schema)
    assert decoder._decode_whole(batch_of(payloads)) is None
    assert decoder.decode(batch_of(payloads))[0].num_rows == 1


def test_a_batch_of_two_schemas_and_bad_messages_is_decoded_in_groups() -> None:
    """Each row is that of its own message, and what is refused is named by its own row."""
    decoder = decoder_of(NEWER, FLAT)
    chance = random.Random(3)
    encoder = EventEncoder(KnownSchemas({TOPIC: NEWER}))
    newer = encoder.encode_all(TOPIC, [{**event(chance), "more": "m", "maybe": 5} for _ in range(150)])
    payloads = [*payloads_of(FLAT, 200), *newer, *(b"garbage%d" % number for number in range(20)), *newer[:3]]
    payloads[10] = payloads[10][:-1]
    chance.shuffle(payloads)
    batch = batch_of(payloads)
    rows, refused = decoder.decode(batch)
    each, refused_each = decoder._decode_each(batch)
    assert refused == refused_each
    assert len(refused) == 21
    assert rows.sort_by("kafka2011_offset").equals(each)
