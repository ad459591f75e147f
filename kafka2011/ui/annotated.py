"""Messages beside their bytes: which bytes are which field, and what they say. Pure."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError
from kafka2011.message.compression import Codec, decompress
from kafka2011.message.crc import crc32
from kafka2011.message.header import LENGTH_BYTES, MIN_LENGTH, MessageHeader, read_header
from kafka2011.message.message_set import decode, scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Decode = Callable[[bytes], str | None]

MOST_SHOWN_BYTES = 1024
"""Of one payload, as bytes and as text."""
MOST_OPENED_BYTES = 1024 * 1024
MOST_INSIDE = 20
_EVENT_MARK, _FINGERPRINT_BYTES = b"\xc3\x01", 8
_CODECS = {codec.value: codec.name.lower() for codec in Codec}


class Field(NamedTuple):
    """Some bytes of a message, from a position of it on, and what they say."""

    name: str
    start: int
    end: int
    meaning: str


class Shown(NamedTuple):
    """A message, or what stands where one should: then `fault` says what is wrong.

    `data` is the message as hex, cut off where it is long; `inside` is what a compressed one holds, as texts.
    """

    offset: int
    size: int
    fields: list[Field]
    data: str
    text: str
    inside: list[str]
    fault: str


def annotate(data: bytes, offset: int, decoded: Decode) -> Iterator[Shown]:
    """Yield the messages of some bytes of a log that start at an offset; of one that is cut off, what is there.

    `decoded` returns what a payload says as an event, or None if it is none.
    """
    position = 0
    while position < len(data):
        header = read_header(data, position)
        if not isinstance(header, MessageHeader):
            rest = data[position : position + MOST_SHOWN_BYTES]
            fault = f"not a message: {header}" if header else "less than a header was fetched"
            yield Shown(offset + position, len(data) - position, [], rest.hex(), "", [], fault)
            return
        message = data[position : position + header.message_bytes]
        yield _shown(message, header, offset + position, decoded)
        position += header.message_bytes


def first_message(data: bytes) -> int | None:
    """Find where the first message starts in bytes that end where a message ends, but may begin within one.

    It is the first position from which good messages follow one another to the end. Should a message be cut off in
    front that has a good set as its payload, and end here, that set is taken for messages.
    """
    for position in range(len(data) - MIN_LENGTH - LENGTH_BYTES + 1):
        header = read_header(data, position)
        if not isinstance(header, MessageHeader) or position + header.message_bytes > len(data):
            continue
        scanned = scan(data, position)
        if scanned.fault is None and scanned.end == len(data):
            return position
    return None


def _shown(message: bytes, header: MessageHeader, offset: int, decoded: Decode) -> Shown:
    start = header.overhead_bytes
    payload = message[start:]
    is_whole = len(message) == header.message_bytes
    is_good = is_whole and crc32(payload) == header.crc
    codec = _CODECS.get(header.codec, f"unknown codec {header.codec}")
    fields = [
        Field("length", 0, 4, f"{header.length} bytes follow"),
        Field("magic", 4, 5, f"format {header.magic}"),
        *([Field("attributes", 5, 6, f"compression: {codec}")] if header.magic else []),
        Field("crc", start - 4, start, _said_of_crc(header.crc, payload, is_whole=is_whole)),
        *_of_payload(payload, start, is_compressed=bool(header.codec)),
    ]
    fault = "" if is_good else "the bytes have changed since they were written" if is_whole else _cut(message, header)
    inside: list[str] = []
    text = ""
    if is_good and header.codec:
        inside, fault = _inside(header.codec, payload, decoded)
    elif is_whole:
        text = text_of(payload, decoded)
    return Shown(offset, header.message_bytes, fields, message[: start + MOST_SHOWN_BYTES].hex(), text, inside, fault)


def _said_of_crc(crc: int, payload: bytes, *, is_whole: bool) -> str:
    if not is_whole:
        return f"{crc:#010x}, not checked"
    computed = crc32(payload)
    return f"{crc:#010x}, correct" if computed == crc else f"{crc:#010x}, but the payload has {computed:#010x}"


def _cut(message: bytes, header: MessageHeader) -> str:
    return f"only {len(message)} of its {header.message_bytes} bytes were fetched"


def _of_payload(payload: bytes, start: int, *, is_compressed: bool) -> Iterator[Field]:
    end = start + len(payload)
    body = start + len(_EVENT_MARK) + _FINGERPRINT_BYTES
    if payload.startswith(_EVENT_MARK) and body <= end and not is_compressed:
        marked = start + len(_EVENT_MARK)
        yield Field("mark", start, marked, "Avro's single-object encoding")
        yield Field("fingerprint", marked, body, f"of the schema: {payload[2:10].hex()}")
        yield Field("body", body, end, f"{end - body} bytes of Avro")
    elif payload:
        what = "a compressed set" if is_compressed else "the payload"
        yield Field("payload", start, end, f"{end - start} bytes: {what}")


def _inside(codec: int, payload: bytes, decoded: Decode) -> tuple[list[str], str]:
    try:
        opened = decompress(codec, payload, MOST_OPENED_BYTES)
        messages = decode(opened, "", None, 0, 0, MOST_OPENED_BYTES)
        texts = [text_of(message.payload, decoded) for message in islice(messages, MOST_INSIDE)]
        more = sum(1 for _ in messages)
    except (InvalidMessageError, InvalidMessageSizeError) as error:
        return [], str(error)
    return (texts if not more else [*texts, f"and {more} more"]), ""


def text_of(payload: bytes, decoded: Decode) -> str:
    """Return what a payload says: as an event, as JSON, as text, or that it is none of them."""
    event = decoded(payload)
    if event is not None:
        return event[: 4 * MOST_SHOWN_BYTES]
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return f"{len(payload)} bytes that are not text"
    if text.lstrip()[:1] in {"{", "["} and len(text) <= MOST_SHOWN_BYTES:
        try:
            return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return text if len(text) <= MOST_SHOWN_BYTES else f"{text[:MOST_SHOWN_BYTES]}… ({len(text)} characters)"


def as_document(shown: Shown) -> dict[str, Any]:
    """Return it for the page."""
    return {**shown._asdict(), "fields": [field._asdict() for field in shown.fields]}
