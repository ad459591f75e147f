"""Compiles a table, for one version, into a function that reads a struct and one that writes it.

The functions are made as Python source. They look nothing up in a table, and one call of `struct` reads or writes all
fields of fixed size that follow each other. So they are several times faster than a walk through the table.

A reader trusts no length: it compares each one with the bytes that are left before it allocates anything. All arrays
of a request together have at most MOST_ELEMENTS elements, because a frame of empty structs would otherwise take a
hundred times its size in memory.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kafka2011.gateway.protocol import primitives
from kafka2011.gateway.protocol.fields import in_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.gateway.protocol.answer_codes import Codes
    from kafka2011.gateway.protocol.fields import MessageField
    from kafka2011.gateway.protocol.primitives import Part
    from kafka2011.message.header import AnyBytes

    Body = dict[str, Any]
    Reader = Callable[[AnyBytes, int], Body]
    Writer = Callable[[Body, bytearray, list[Part]], bytearray]

MOST_ELEMENTS = 100_000

_FIXED = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uuid": "16s"}
_NO_UUID = bytes(16)


def compile_reader(fields: tuple[MessageField, ...], version: int, *, is_flexible: bool) -> Reader:
    """Return a function that reads a struct from bytes, from a position on.

    It raises MalformedRequestError, and where bytes end too early also IndexError or struct.error. Bytes behind the
    struct are ignored, as in Kafka.
    """
    source = _ReaderSource(version, is_flexible=is_flexible)
    source.add("def read(data, at):")
    with source:
        source.add("size = len(data)")
        source.add(f"room = {MOST_ELEMENTS}")
        source.struct(fields, "body")
        source.add("return body")
    read: Reader = source.compiled("read")
    return read


def compile_writer(
    fields: tuple[MessageField, ...], version: int, *, is_flexible: bool, codes: Callable[[str], Codes] | None = None
) -> Writer:
    """Return a function that appends a struct to a bytearray, and returns what to append to from now on.

    That is another bytearray where large records became parts. It raises KeyError for a name that no version has,
    and struct.error, AttributeError or TypeError for values that are not of their field's type. `codes` gives the
    error codes that may stand in the elements of an array, or in the struct itself, which is "".
    """
    source = _WriterSource(version, is_flexible=is_flexible, codes=codes)
    source.add("def write(body, out, parts):")
    with source:
        source.struct(fields, "body")
        source.add("return out")
    write: Writer = source.compiled("write")
    return write


def unknown_names(body: Body, names: Iterable[str]) -> KeyError:
    """Make the error of a body with names that its table does not have."""
    return KeyError(f"no fields of this message: {', '.join(sorted(body.keys() - set(names)))}")


class _Source:
    """Lines of Python, and the names that they use."""

    def __init__(self, version: int, *, is_flexible: bool) -> None:
        self._version = version
        self._is_flexible = is_flexible
        self._lines: list[str] = []
        self._depth = 0
        self._used = 0
        self._names: dict[str, Any] = {"struct": struct, "unknown_names": unknown_names} | vars(primitives)

    def __enter__(self) -> None:
        """Indent what is added from now on."""
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        """Indent it no longer."""
        self._depth -= 1

    def add(self, *lines: str) -> None:
        """Add lines at the present depth."""
        self._lines += ["    " * self._depth + line for line in lines]

    def fresh(self, prefix: str) -> str:
        """Return a name that nothing has yet."""
        self._used += 1
        return f"{prefix}{self._used}"

    def constant(self, prefix: str, value: object) -> str:
        """Return a name that the lines may use for a value."""
        name = self.fresh(prefix)
        self._names[name] = value
        return name

    def compiled(self, name: str) -> Any:
        """Return the function of this name."""
        exec(compile("\n".join(self._lines), f"<{name} of version {self._version}>", "exec"), self._names)  # noqa: S102
        return self._names[name]

    def runs(self, fields: tuple[MessageField, ...]) -> list[list[MessageField]]:
        """Return the fields of this version: those of fixed size together that follow each other, others alone."""
        runs: list[list[MessageField]] = []
        for field in in_version(fields, self._version):
            if runs and _is_fixed(field) and _is_fixed(runs[-1][-1]):
                runs[-1].append(field)
            else:
                runs.append([field])
        return runs


class _ReaderSource(_Source):
    """The lines of a reader: `at` is the next byte of `data`, `room` how many more elements arrays may have."""

    def struct(self, fields: tuple[MessageField, ...], target: str) -> None:
        """Add what reads a struct as a dict."""
        values: dict[str, str] = {}
        for run in self.runs(fields):
            names = [self.fresh("v") for _ in run]
            values |= {field.name: name for field, name in zip(run, names, strict=True)}
            if _is_fixed(run[0]):
                self._fixed(run, names)
            else:
                self._sized(run[0], names[0])
        if self._is_flexible:
            self.add("if data[at]:", "    at = skip_tags(data, at, size)", "else:", "    at += 1")
        self.add(f"{target} = {{{', '.join(f'{name!r}: {value}' for name, value in values.items())}}}")

    def _fixed(self, run: list[MessageField], names: list[str]) -> None:
        layout = _layout(run)
        unpack = self.constant("unpack", layout.unpack_from)
        self.add(f"{', '.join(names)}, = {unpack}(data, at)", f"at += {layout.size}")

    def _sized(self, field: MessageField, name: str) -> None:
        """Add what reads a field behind its length."""
        self._length(field)
        self.add("if length < 0:")
        with self:
            self.add(f"{name} = None" if field.is_nullable else f"raise no_null({field.name!r}, at)")
        self.add("else:")
        with self:
            if field.is_array:
                self._array(field, name)
            else:
                self.add("end = at + length", "if end > size:", f"    raise too_short({field.name!r}, at)")
                self.add(f"{name} = {_READ[field.kind]}", "at = end")

    def _length(self, field: MessageField) -> None:
        is_string = field.kind == "string" and not field.is_array
        if self._is_flexible:
            self.add("length = data[at] - 1", "at += 1", "if length > 126:")
            with self:
                self.add("length, at = read_varint(data, at - 1)", "length -= 1")
                if is_string:
                    self.add("if length > LONGEST_STRING:", f"    raise too_long({field.name!r}, at)")
            return
        layout = struct.Struct(">h" if is_string else ">i")
        unpack = self.constant("unpack", layout.unpack_from)
        self.add(f"length, = {unpack}(data, at)", f"at += {layout.size}")

    def _array(self, field: MessageField, name: str) -> None:
        element = field._replace(is_array=False, is_nullable=False)
        smallest = _smallest(element, self._version, is_flexible=self._is_flexible)
        self.add("room -= length", f"if room < 0 or {smallest} * length > size - at:")
        self.add(f"    raise too_many({field.name!r}, length, at)")
        if _is_fixed(element):
            code = _FIXED[field.kind]
            self.add(f"{name} = list(struct.unpack_from(f'>{{length}}{code}', data, at))", f"at += {smallest} * length")
            return
        each = self.fresh("e")
        self.add(f"{name} = []", "for _ in range(length):")
        with self:
            if field.fields:
                self.struct(field.fields, each)
            else:
                self._sized(element, each)
            self.add(f"{name}.append({each})")


class _WriterSource(_Source):
    """The lines of a writer: all is appended to `out`."""

    def __init__(self, version: int, *, is_flexible: bool, codes: Callable[[str], Codes] | None) -> None:
        super().__init__(version, is_flexible=is_flexible)
        self._codes = codes

    def struct(self, fields: tuple[MessageField, ...], value: str, level: str = "") -> None:
        """Add what writes a dict as a struct; `level` is the array that it is an element of."""
        names = self.constant("names", frozenset(field.name for field in fields))
        get = self.fresh("get")
        self.add(
            f"if not {value}.keys() <= {names}:", f"    raise unknown_names({value}, {names})", f"{get} = {value}.get"
        )
        for run in self.runs(fields):
            if _is_fixed(run[0]):
                pack = self.constant("pack", _layout(run).pack)
                self.add(f"out += {pack}({', '.join(self._value(each, get, level) for each in run)})")
            else:
                self._sized(run[0], f"{get}({run[0].name!r}, {_default(run[0])!r})")
        if self._is_flexible:
            self.add("out.append(0)")

    def _value(self, field: MessageField, get: str, level: str) -> str:
        """Return what gives the value of a field of fixed size."""
        value = f"{get}({field.name!r}, {_default(field)!r})"
        if field.name != "error_code" or self._codes is None:
            return value
        return f"{self.constant('codes', self._codes(level))}[{value}]"

    def _sized(self, field: MessageField, value: str) -> None:
        compact = "compact_" if self._is_flexible else ""
        if not field.is_nullable:
            value = self._not_null(field, value)
        if field.kind == "records":
            self.add(f"out = put_records(out, parts, {value}, is_flexible={self._is_flexible})")
            return
        if not field.is_array:
            self.add(f"put_{compact}{field.kind}(out, {value})")
            return
        each = self.fresh("e")
        element = field._replace(is_array=False, is_nullable=False)
        if _is_fixed(element):
            self.add(f"{each} = put_{compact}count(out, {value})")
            self.add(f"out += struct.pack(f'>{{len({each})}}{_FIXED[field.kind]}', *{each})")
            return
        self.add(f"for {each} in put_{compact}count(out, {value}):")
        with self:
            if field.fields:
                self.struct(field.fields, each, field.name)
            else:
                self._sized(element, each)

    def _not_null(self, field: MessageField, value: str) -> str:
        """Add what refuses null, and return the name of the value."""
        name = self.fresh("v")
        self.add(f"{name} = {value}", f"if {name} is None:", f"    raise TypeError('{field.name} must not be null')")
        return name


_READ = {
    "string": "str(data[at:end], 'utf-8', 'replace')",
    "bytes": "bytes(data[at:end])",
    "records": "memoryview(data)[at:end]",
}


def _is_fixed(field: MessageField) -> bool:
    return field.kind in _FIXED and not field.is_array


def _layout(run: list[MessageField]) -> struct.Struct:
    return struct.Struct(">" + "".join(_FIXED[field.kind] for field in run))


def _default(field: MessageField) -> Any:
    """Return what stands for a value that is missing. Kafka's brokers never send null as records."""
    if field.kind == "records":
        return b""
    if field.is_nullable:
        return None
    if field.is_array:
        return ()
    return {"string": "", "bytes": b"", "uuid": _NO_UUID, "bool": bool(field.default)}.get(field.kind, field.default)


def _smallest(field: MessageField, version: int, *, is_flexible: bool) -> int:
    """Return how many bytes a field takes at least."""
    if _is_fixed(field):
        return struct.calcsize(">" + _FIXED[field.kind])
    if field.fields and not field.is_array:
        below = (_smallest(each, version, is_flexible=is_flexible) for each in in_version(field.fields, version))
        return sum(below) + is_flexible
    if is_flexible:
        return 1
    return 2 if field.kind == "string" and not field.is_array else 4
