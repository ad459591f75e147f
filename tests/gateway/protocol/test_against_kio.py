"""Our tables against kio, a codec that is generated from Kafka's own tables: names, types, defaults, bytes."""

from __future__ import annotations

import dataclasses
import io
import typing
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from kafka2011.gateway.protocol.answer_codes import Codes
from kafka2011.gateway.protocol.compiler import compile_writer
from kafka2011.gateway.protocol.fields import Api, MessageField, in_version
from kafka2011.gateway.protocol.frames import TABLES, read_request, write_response
from tests.gateway.protocol.bodies import EVERY, random_body, request_frame

if TYPE_CHECKING:
    from kafka2011.gateway.protocol.primitives import Part

APIS = pytest.mark.parametrize("api", EVERY, ids=lambda api: api.name)
_KINDS = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
_NULL_HERE = {"error_message", "batch_index_error_message", "configuration_keys"}


def struct_of(hint: Any) -> Any:
    """Return the class of the structs that a type hint names, if it does."""
    if dataclasses.is_dataclass(hint):
        return hint
    return next(filter(None, map(struct_of, typing.get_args(hint))), None)


def described(struct: Any) -> list[tuple[Any, ...]]:
    """Return name, kind, whether it is an array, and may be null, of each field, and those below; not optional ones."""
    hints = typing.get_type_hints(struct)
    found: list[tuple[Any, ...]] = []
    for field in dataclasses.fields(struct):
        hint, kind = hints[field.name], field.metadata.get("kafka_type", "")
        below = struct_of(hint)
        is_array = "tuple[" in str(hint)
        may_be_null = type(None) in typing.get_args(hint) and kind not in {"uuid", "datetime_i64"}
        if "tag" not in field.metadata:
            is_ms = kind in _KINDS and kind != "error_code"
            name = field.name + "_ms" * is_ms
            found.append((name, _KINDS.get(kind, kind), is_array, may_be_null, described(below) if below else []))
    return found


def ours(fields: tuple[MessageField, ...], version: int) -> list[tuple[Any, ...]]:
    return [
        (each.name, each.kind, each.is_array, each.is_nullable, ours(each.fields, version))
        for each in in_version(fields, version)
    ]


@APIS
def test_fields_are_those_of_kafka(api: Api) -> None:
    """Names, types, order, whether null is allowed, and which versions are flexible."""
    tables = TABLES[api]
    for version in tables.versions:
        request, response = load_request_schema(api, version), load_response_schema(api, version)
        assert request.__flexible__ == response.__flexible__ == tables.is_flexible(version)
        assert ours(tables.request, version) == described(request)
        assert ours(tables.response, version) == described(response)


@APIS
def test_kio_reads_what_we_write(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """And writes the same bytes again."""
    monkeypatch.setattr(Codes, "__missing__", lambda _, code: code)  # any code is written
    draw = Random(api)
    for version in 2 * list(TABLES[api].versions):
        schema = load_response_schema(api, version)
        data = b"".join(write_response(api, version, 77, random_body(TABLES[api].response, version, draw)))
        header, at = entity_reader(schema.__header_schema__)(data, 4)
        assert header.correlation_id == 77
        assert int.from_bytes(data[:4]) == len(data) - 4
        body, size = entity_reader(schema)(data, 4 + at)
        assert 4 + at + size == len(data)
        assert written(body) == data[4 + at :]


@APIS
def test_we_read_what_kio_writes(api: Api) -> None:
    draw = Random(api)
    tables = TABLES[api]
    for version in 2 * list(tables.versions):
        schema = load_request_schema(api, version)
        body = random_body(tables.request, version, draw)
        frame = request_frame(tables, version, body)
        header, at = entity_reader(schema.__header_schema__)(frame, 0)
        entity, _ = entity_reader(schema)(frame, at)
        request = read_request(written(header) + written(entity), EVERY)
        assert request == (api, version, 77, "a client", body)


@APIS
def test_missing_values_are_kafkas_defaults(api: Api) -> None:
    """Also in structs of arrays; in requests, which only tests write, too."""
    tables = TABLES[api]
    for version in tables.versions:
        for fields, schema in (
            (tables.request, load_request_schema(api, version)),
            (tables.response, load_response_schema(api, version)),
        ):
            parts: list[Part] = []
            write = compile_writer(fields, version, is_flexible=tables.is_flexible(version))
            entity, _ = entity_reader(schema)(bytes(write(one_of_each(fields, version), bytearray(), parts)), 0)
            check_defaults(entity)


def one_of_each(fields: tuple[MessageField, ...], version: int) -> dict[str, Any]:
    """Return a body that has nothing but one struct in each array of structs."""
    present = in_version(fields, version)
    return {each.name: [one_of_each(each.fields, version)] for each in present if each.fields}


def check_defaults(entity: Any) -> None:
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        if isinstance(value, tuple) and value:
            check_defaults(value[0])
        elif field.default is not dataclasses.MISSING and field.name not in _NULL_HERE:
            assert value == field.default, field.name


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()
