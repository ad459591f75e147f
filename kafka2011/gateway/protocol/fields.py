"""The notation of the tables: what a message consists of, in which versions.

    name   type   versions   = default

is a line of a table. Types are `bool`, `int8` to `int64`, `string`, `uuid`, `bytes` and `records`; `[]int32` is an
array, `[]` alone one of structs, whose fields are the lines that are indented below. `?` before a type allows null.
Versions are `3+`, `0-2` or `7`; without them, a field is in all. The default, of integers and bools only, is what is
written where a body has no value: otherwise 0, "", an empty array, or null where that is allowed. Two lines may have
one name and different versions. In flexible versions, Kafka encodes lengths differently, and puts optional fields
behind each struct; none of those is written, and those that are read are skipped.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANY_VERSION = range(1 << 15)
_NEVER = 1 << 15
_BOOLS = {"true": True, "false": False}


class Api(IntEnum):
    """The requests that the gateway knows, by the key that a frame names them with."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    PLACES = 20_110

    __hash__ = int.__hash__  # Enum's own is written in Python, and every request is looked up by it


class MessageField(NamedTuple):
    """A field of a struct. `kind` is a type without `[]` and `?`, or "" for structs, which have `fields`."""

    name: str
    kind: str
    is_array: bool
    is_nullable: bool
    versions: range
    default: int
    fields: tuple[MessageField, ...]


class ApiTables(NamedTuple):
    """The request and the response of an API, in the versions that are known, flexible from one of them on."""

    api: Api
    versions: range
    flexible_from: int
    request: tuple[MessageField, ...]
    response: tuple[MessageField, ...]

    def is_flexible(self, version: int) -> bool:
        """Return whether a version is flexible."""
        return version >= self.flexible_from


def api_tables(api: Api, versions: str, request: str, response: str, *, flexible_from: int = _NEVER) -> ApiTables:
    """Read the tables of an API. Raises ValueError."""
    return ApiTables(api, _versions(versions), flexible_from, read_table(request), read_table(response))


def read_table(text: str) -> tuple[MessageField, ...]:
    """Read a table. Raises ValueError."""
    lines = [line for line in text.splitlines() if line.strip()]
    return _fields([(len(line) - len(line.lstrip()), line.split()) for line in lines])


def in_version(fields: tuple[MessageField, ...], version: int) -> Iterator[MessageField]:
    """Yield the fields that a version has, in order."""
    return (field for field in fields if version in field.versions)


def _fields(lines: list[tuple[int, list[str]]]) -> tuple[MessageField, ...]:
    """Read the lines of one struct and of those below it."""
    starts = [number for number, (indent, _) in enumerate(lines) if indent <= lines[0][0]]
    ends = [*starts[1:], len(lines)]
    return tuple(_field(lines[start][1], lines[start + 1 : end]) for start, end in zip(starts, ends, strict=True))


def _field(words: list[str], below: list[tuple[int, list[str]]]) -> MessageField:
    name, kind, *rest = words
    default = 0
    if "=" in rest:
        *rest, _, value = rest
        default = _BOOLS[value] if value in _BOOLS else int(value)
    versions = _versions(*rest) if rest else _ANY_VERSION
    is_array = "[]" in kind
    plain = kind.removeprefix("?").removeprefix("[]")
    if bool(plain) == bool(below):
        raise ValueError(f"{name}: a struct needs fields, and nothing else has any")
    return MessageField(name, plain, is_array, kind.startswith("?"), versions, default, _fields(below) if below else ())


def _versions(text: str) -> range:
    first, _, last = text.removesuffix("+").partition("-")
    return range(int(first), _NEVER if text.endswith("+") else int(last or first) + 1)
