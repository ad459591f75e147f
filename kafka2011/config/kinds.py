"""The kinds of value a setting can have: each reads text or a Python value, and writes it back as text.

`read` raises ValueError saying what is expected; the caller adds which setting it is, and where it came from.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kafka2011.errors import REGEX_ERRORS, KafkaError
from kafka2011.message.topic import validate_topic
from zk.cluster import Broker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_NUMBERS = re.compile(r"(0[xX][0-9a-fA-F]*|[0-9]+)(\.(0[xX][0-9a-fA-F]*|[0-9]+))*\.?")
_BOOLEANS = {"true": True, "false": False}

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=IntEnum)


class Kind(Protocol[T_co]):
    """Reads and writes the values of one setting."""

    def read(self, value: object) -> T_co:
        """Return the setting's value, given as text or as a Python value. Raises ValueError."""

    def write(self, value: Any) -> str:
        """Return the text that `read` turns into this value."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number within bounds, both allowed."""

    least: int = 0
    most: int = MAX_INT32

    def read(self, value: object) -> int:
        """Return the number. Raises ValueError."""
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{value!r} is not a whole number")
        if not self.least <= value <= self.most:
            raise ValueError(f"{value} is not between {self.least} and {self.most}")
        return value

    def write(self, value: int) -> str:
        """Return the number in decimal."""
        return str(value)


@dataclass(frozen=True, slots=True)
class Decimal:
    """A positive number that need not be whole: hours and minutes, so that tests and demos can use seconds."""

    most: float = MAX_INT32

    def read(self, value: object) -> float:
        """Return the number. Raises ValueError."""
        if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{value!r} is not a number")
        if not 0 < value <= self.most or math.isnan(value):
            raise ValueError(f"{value} is not more than 0 and at most {self.most}")
        return float(value)

    def write(self, value: float) -> str:
        """Return the number without a needless fraction."""
        return str(int(value)) if value == int(value) else repr(value)


@dataclass(frozen=True, slots=True)
class Boolean:
    """`true` or `false`."""

    def read(self, value: object) -> bool:
        """Return the truth value. Raises ValueError."""
        if isinstance(value, str):
            value = _BOOLEANS.get(value.strip().lower(), value)
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} is neither true nor false")
        return value

    def write(self, value: bool) -> str:
        """Return `true` or `false`."""
        return "true" if value else "false"


class _TextKind:
    """A kind of text."""

    __slots__ = ()

    def write(self, value: str) -> str:
        """Return the text itself."""
        return value


def _stripped(value: object) -> str:
    """Return text without blanks around it. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value.strip()


@dataclass(frozen=True, slots=True)
class Text(_TextKind):
    """Text; when it is not empty it must match `pattern`, which `wanted` explains. A list may have blanks."""

    pattern: re.Pattern[str] | None = None
    wanted: str = ""
    is_list: bool = False

    def read(self, value: object) -> str:
        """Return the text without blanks around it, or around the commas of a list. Raises ValueError."""
        text = _stripped(value)
        if self.is_list:
            text = ",".join(part.strip() for part in text.split(","))
        if text and self.pattern is not None and not self.pattern.fullmatch(text):
            raise ValueError(f"{text!r} is not {self.wanted}")
        return text


@dataclass(frozen=True, slots=True)
class Host(_TextKind):
    """A host's name or IPv4 address. 0.7 registers `creator:host:port`, which cannot hold an IPv6 address."""

    def read(self, value: object) -> str:
        """Return it without blanks around it. Raises ValueError."""
        host = _stripped(value)
        if not host:
            raise ValueError("it is empty; leave it out for the default")
        if ":" in host:
            raise ValueError(f"{host!r} has a ':', which 0.7's registry cannot hold: give a name or an IPv4 address")
        # The system's resolver accepts `0`, `127.1` and `0x7f.1` as addresses too.
        if not (_is_ipv4(host) if _NUMBERS.fullmatch(host) else _HOST_NAME.fullmatch(host)):
            raise ValueError(f"{host!r} is not a name or IPv4 address")
        return host


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Directory:
    """A path; relative ones start where the process was started, as in 0.7."""

    def read(self, value: object) -> Path:
        """Return the path. Raises ValueError."""
        if isinstance(value, str) and value.strip():
            return Path(value.strip())
        if not isinstance(value, Path):
            raise ValueError(f"{value!r} is not a path")
        return value

    def write(self, value: Path) -> str:
        """Return the path as text."""
        return str(value)


@dataclass(frozen=True, slots=True)
class File(_TextKind):
    """A path as text, empty for none."""

    def read(self, value: object) -> str:
        """Return the path. Raises ValueError."""
        if not isinstance(value, (str, Path)):
            raise ValueError(f"{value!r} is not a path")
        return str(value).strip()


@dataclass(frozen=True, slots=True)
class PatternKind(_TextKind):
    """A regular expression with a group."""

    def read(self, value: object) -> str:
        """Return the expression. Raises ValueError."""
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a regular expression")
        try:
            groups = re.compile(value).groups
        except REGEX_ERRORS as error:
            raise ValueError(f"{value!r} is not a regular expression: {error}") from error
        if not groups:
            raise ValueError(f"{value!r} has no group")
        return value


@dataclass(frozen=True, slots=True)
class Choice(_TextKind):
    """One of a few words."""

    words: tuple[str, ...]

    def read(self, value: object) -> str:
        """Return the word. Raises ValueError."""
        if isinstance(value, str) and value.strip() in self.words:
            return value.strip()
        raise ValueError(f"{value!r} is not one of {', '.join(self.words)}")


@dataclass(frozen=True, slots=True)
class NumberOf(Generic[E]):
    """The number of a member of an enumeration, or its name in any case."""

    enumeration: type[E]

    def read(self, value: object) -> E:
        """Return the member. Raises ValueError."""
        for member in self.enumeration:
            names = (str(member.value), member.name.lower())
            if not isinstance(value, bool) and (value == member or str(value).strip().lower() in names):
                return member
        known = ", ".join(f"{member.value} ({member.name.lower()})" for member in self.enumeration)
        raise ValueError(f"{value!r} is not one of {known}")

    def write(self, value: E) -> str:
        """Return the number, which 0.7 reads too."""
        return str(value.value)


@dataclass(frozen=True, slots=True)
class TopicMap(Generic[T]):
    """A value for each of some topics, `topic:value,topic:value`."""

    values: Kind[T]

    def read(self, value: object) -> Mapping[str, T]:
        """Return the values by topic. Raises ValueError."""
        pairs: Iterable[tuple[object, object]]
        if isinstance(value, str):
            pairs = [self._pair(part) for part in _parts(value)]
        elif isinstance(value, dict):
            pairs = value.items()
        else:
            raise ValueError(f"{value!r} is not topic:value,topic:value")
        by_topic: dict[str, T] = {}
        for topic, text in pairs:
            name = _topic(topic)
            if name in by_topic:
                raise ValueError(f"topic {name!r} is given twice")
            try:
                by_topic[name] = self.values.read(text)
            except ValueError as error:
                raise ValueError(f"topic {name!r}: {error}") from error
        return by_topic

    @staticmethod
    def _pair(part: str) -> tuple[str, str]:
        topic, colon, text = part.partition(":")
        if not colon:
            raise ValueError(f"{part!r} is not topic:value")
        return topic.strip(), text

    def write(self, value: Mapping[str, T]) -> str:
        """Return `topic:value,topic:value`."""
        return ",".join(f"{topic}:{self.values.write(item)}" for topic, item in value.items())


@dataclass(frozen=True, slots=True)
class Topics:
    """Topic names, separated by commas."""

    def read(self, value: object) -> tuple[str, ...]:
        """Return the names. Raises ValueError."""
        if isinstance(value, str):
            value = _parts(value)
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{value!r} is not topic,topic")
        return tuple(_topic(name) for name in value)

    def write(self, value: tuple[str, ...]) -> str:
        """Return the names with commas."""
        return ",".join(value)


@dataclass(frozen=True, slots=True)
class Names:
    """Names, separated by commas."""

    def read(self, value: object) -> tuple[str, ...]:
        """Return the names. Raises ValueError."""
        if isinstance(value, str):
            value = _parts(value)
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{value!r} is not name,name")
        return tuple(_stripped(name) for name in value)

    def write(self, value: tuple[str, ...]) -> str:
        """Return the names with commas."""
        return ",".join(value)


@dataclass(frozen=True, slots=True)
class BrokerList:
    """Brokers as `id:host:port,id:host:port`."""

    _number: Integer = field(default=Integer(0, MAX_INT32), init=False)
    _port: Integer = field(default=Integer(1, 65535), init=False)

    def read(self, value: object) -> tuple[Broker, ...]:
        """Return the addresses. Raises ValueError."""
        if isinstance(value, str):
            value = [self._entry(part) for part in _parts(value)]
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{value!r} is not id:host:port,id:host:port")
        brokers = tuple(self._broker(entry) for entry in value)
        ids = [broker.id for broker in brokers]
        if len(set(ids)) != len(ids):
            raise ValueError(f"a broker id is given twice: {', '.join(map(str, ids))}")
        return brokers

    @staticmethod
    def _entry(part: str) -> list[str]:
        entry = part.split(":")
        if len(entry) != 3:
            hint = f": write 0:{part} if that broker's id is 0" if len(entry) == 2 else ""
            raise ValueError(f"{part!r} is not id:host:port{hint}")
        return entry

    def _broker(self, entry: object) -> Broker:
        if isinstance(entry, Broker):
            entry = (entry.id, entry.host, entry.port)
        if not isinstance(entry, (list, tuple)) or len(entry) != 3 or not str(entry[1]).strip():
            raise ValueError(f"{entry!r} is not id:host:port")
        return Broker(self._number.read(entry[0]), str(entry[1]).strip(), self._port.read(entry[2]))

    def write(self, value: tuple[Broker, ...]) -> str:
        """Return `id:host:port,id:host:port`."""
        return ",".join(f"{broker.id}:{broker.host}:{broker.port}" for broker in value)


ZK_CONNECT = Text(
    re.compile(r"[^,/\s]+(,[^,/\s]+)*(/[^\s,]*)?"), "host:port,host:port, with /chroot if there is one", is_list=True
)
GROUP_NAME = Text(re.compile(r"(?!\.{1,2}\Z)[^/\s\x00-\x1f\x7f-\x9f]{1,255}"), "a name without '/' and blanks")
REPLICA_NAME = Text(re.compile(r"[A-Za-z0-9._-]{1,249}|"), "a name of letters, digits, '.', '_' and '-'")
IMPLEMENTATION = Text(re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"), "module:Class")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _topic(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is not a topic name")
    try:
        validate_topic(name)
    except KafkaError as error:
        raise ValueError(str(error)) from error
    return name
