"""Files of schemas as people have them: with comments and byte order marks, and with types that other files define.

Avro's library for Java takes comments, so many `.avsc` files begin with a licence. It also builds schemas from several
files. A schema in the registry stands alone: types of other files are written into it, each at its first use.
"""

from __future__ import annotations

import codecs
import json
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from kafka2011.events.errors import InvalidSchemaError
from kafka2011.events.schema_walk import NAMED, PRIMITIVES, full_name, named_in

if TYPE_CHECKING:
    from collections.abc import Iterable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and encodings; the mark of UTF-32 begins with that of UTF-16."""
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_IDL = re.compile(r"\s*(@\w+\s*\(|protocol\s|namespace\s|schema\s|import\s|record\s)")


def file_text(data: bytes) -> str:
    """Return the text of a file: UTF-8, or what its byte order mark says. Raises InvalidSchemaError."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    body = data[len(mark) :]
    try:
        return body.decode(encoding)
    except UnicodeDecodeError as error:
        before = body[: error.start].decode(encoding, "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise InvalidSchemaError(
            f"byte 0x{body[error.start]:02x} at line {line}, column {column} is not {encoding.upper()}: save the file"
            " as UTF-8"
        ) from error


def schema_json(text: str) -> Any:
    """Return the JSON of a schema's text, which may have comments as Java's. Raises InvalidSchemaError."""
    text = text.removeprefix("\ufeff")
    try:
        return json.loads(text)
    except ValueError as error:
        first = error
    try:
        return json.loads(_STRING_OR_COMMENT.sub(_blanked, text))
    except ValueError as error:
        if _IDL.match(_STRING_OR_COMMENT.sub(_blanked, text)):
            raise InvalidSchemaError(
                "this is Avro IDL and no JSON: make a schema of it with `java -jar avro-tools.jar idl2schemata`"
            ) from first
        raise InvalidSchemaError(f"not JSON: {error}") from error


def _blanked(found: re.Match[str]) -> str:
    """Return a string as it is, and a comment as blanks, so that errors name the right line and column."""
    text = found.group()
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def with_references(document: Any, references: Iterable[Any]) -> Any:
    """Return a schema's JSON with the types that only other files define, each at its first use.

    `references` holds the JSON of these files: a type, or a list of types, in any order. Raises InvalidSchemaError if
    two files define one name in different ways.
    """
    inlined = _References(references)
    for name, (part, namespace) in named_in(document).items():
        inlined.add(name, part, namespace)
    return inlined.written(deepcopy(document), "")


class _References:
    """The named types of other files, by full name, and which of them the schema has by now."""

    def __init__(self, documents: Iterable[Any]) -> None:
        self._types: dict[str, tuple[Any, str]] = {}
        self._written: set[str] = set()
        for document in documents:
            for name, (part, namespace) in named_in(document).items():
                self.add(name, part, namespace)

    def add(self, name: str, part: Any, namespace: str) -> None:
        known = self._types.setdefault(name, (part, namespace))
        if known[0] != part:
            raise InvalidSchemaError(f"type {name} is defined twice, in different ways")

    def written(self, part: Any, namespace: str) -> Any:
        """Return a type whose inner types are all defined, where it or another file defines them."""
        if isinstance(part, list):
            return [self.written(branch, namespace) for branch in part]
        if isinstance(part, str):
            return self._of_name(part, namespace)
        kind = part["type"]
        if kind in NAMED:
            return self._of_named(part, namespace)
        if kind in {"array", "map"}:
            held = "items" if kind == "array" else "values"
            return {**part, held: self.written(part[held], namespace)}
        return part if kind in PRIMITIVES else self.written(kind, namespace)

    def _of_name(self, name: str, namespace: str) -> Any:
        full = full_name({"name": name}, namespace)
        if full not in self._types and name in self._types:
            full = name  # of no namespace
        if name in PRIMITIVES or full not in self._types:
            return name
        return full if full in self._written else self._of_named(*self._types[full])

    def _of_named(self, part: dict[str, Any], namespace: str) -> Any:
        full = full_name(part, namespace)
        if full in self._written:
            return full
        self._written.add(full)
        space, _, name = full.rpartition(".")
        found = {**part, "name": name, "namespace": space}
        if "fields" in part:
            found["fields"] = [{**field, "type": self.written(field["type"], space)} for field in part["fields"]]
        return found
