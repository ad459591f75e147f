"""The consumer protocol: what members of a group say of themselves, and which partitions they are given.

A group's coordinator passes these bytes on unread, as far as Kafka goes; here it decides by them.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.gateway.protocol.compiler import compile_reader, compile_writer
from kafka2011.gateway.protocol.errors import MalformedRequestError
from kafka2011.gateway.protocol.fields import read_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafka2011.gateway.protocol.compiler import Body, Reader, Writer
    from kafka2011.gateway.protocol.fields import MessageField

PROTOCOL_TYPE = "consumer"
"""What members say that use this protocol."""
NEWEST_VERSION = 3
"""Bytes of a later version are read as this one: later versions only append fields."""
_WITH_OWNED = 1

_SUBSCRIPTION = read_table(
    """
        topics                []string
        user_data             ?bytes
        owned_partitions      []         1+
            topic             string
            partitions        []int32
        generation_id         int32      2+  = -1
        rack_id               ?string    3+
    """
)
_ASSIGNMENT = read_table(
    """
        assigned_partitions   []
            topic             string
            partitions        []int32
        user_data             ?bytes
    """
)
_VERSION = struct.Struct(">h")


class MemberSubscription(NamedTuple):
    """What a member wants: its topics, and the numbers of the partitions that it owns, by topic.

    `owned` is None where the member's version does not say; members that give up everything before they join say {}.
    """

    topics: tuple[str, ...]
    owned: dict[str, tuple[int, ...]] | None


def read_subscription(data: bytes) -> MemberSubscription:
    """Read the metadata with which a member joins. Raises MalformedRequestError."""
    try:
        body = _read(_SUBSCRIPTION, data, "a subscription")
    except MalformedRequestError:
        rest = data[_VERSION.size :]
        body = _read(_SUBSCRIPTION, bytes(_VERSION.size) + rest, "a subscription")
        if write_subscription(body["topics"], user_data=body["user_data"])[_VERSION.size :] != rest:
            raise  # else it is whole, and of version 0: kafka-go and old releases of Sarama write another version
    owned = _by_topic(body["owned_partitions"]) if "owned_partitions" in body else None
    return MemberSubscription(tuple(dict.fromkeys(body["topics"])), owned)


def write_subscription(
    topics: Iterable[str], owned: Mapping[str, Collection[int]] | None = None, user_data: bytes | None = None
) -> bytes:
    """Write a subscription as a member does: of version 1 where it says what it owns, else of version 0."""
    version = 0 if owned is None else _WITH_OWNED
    body = {"topics": list(topics), "user_data": user_data, "owned_partitions": _listed(owned or {})}
    return _write(_SUBSCRIPTION, version, body)


def read_assignment(data: bytes) -> dict[str, tuple[int, ...]]:
    """Read which partitions a member was given, by topic; no bytes are none. Raises MalformedRequestError."""
    return _by_topic(_read(_ASSIGNMENT, data, "an assignment")["assigned_partitions"]) if len(data) else {}


def write_assignment(partitions: Mapping[str, Collection[int]]) -> bytes:
    """Write the numbers of partitions, by topic, as all members read them."""
    return _write(_ASSIGNMENT, 0, {"assigned_partitions": _listed(partitions)})


def _by_topic(entries: Sequence[Body]) -> dict[str, tuple[int, ...]]:
    partitions: dict[str, tuple[int, ...]] = {}
    for entry in entries:
        partitions[entry["topic"]] = (*partitions.get(entry["topic"], ()), *entry["partitions"])
    return partitions


def _listed(partitions: Mapping[str, Collection[int]]) -> list[Body]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions.items()]


def _read(fields: tuple[MessageField, ...], data: bytes, what: str) -> Body:
    try:
        (version,) = _VERSION.unpack_from(data)
        if version < 0:
            raise MalformedRequestError(f"{what} has version {version}")
        return _reader(fields, min(version, NEWEST_VERSION))(data, _VERSION.size)
    except (IndexError, struct.error) as error:
        raise MalformedRequestError(f"{what} of {len(data)} bytes ends too early: {error}") from error


def _write(fields: tuple[MessageField, ...], version: int, body: Body) -> bytes:
    return bytes(_writer(fields, version)(body, bytearray(_VERSION.pack(version)), []))


@cache
def _reader(fields: tuple[MessageField, ...], version: int) -> Reader:
    return compile_reader(fields, version, is_flexible=False)


@cache
def _writer(fields: tuple[MessageField, ...], version: int) -> Writer:
    return compile_writer(fields, version, is_flexible=False)
