"""The doctor names schemas that hinder loads."""

from __future__ import annotations

from typing import Any

import pytest

from kafka2011.events.schema_checkup import examine_schemas
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import event_schema
from tests.support.zk_in_memory import ZkClientInMemory
from zk.schemas import SchemaNodes

TWINS = {"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}
GOOD = event_schema("Thing", {"name": "x", "type": "int"})
TEXT = event_schema("Thing", {"name": "x", "type": "string"})
UNFIT = event_schema("Thing", {"name": "x", "type": TWINS})


@pytest.fixture
def client() -> Any:
    return ZkClientInMemory()


def found(client: Any) -> list[tuple[str, str]]:
    findings = list(examine_schemas(client))
    assert all(finding.remedy for finding in findings)
    return [(finding.where, finding.what) for finding in findings]


def test_a_registry_without_faults_has_no_findings(client: Any) -> None:
    assert found(client) == []
    SchemaRegistry(client).register("things", GOOD)
    assert found(client) == []


@pytest.mark.parametrize("before", [[], [GOOD]])
def test_a_schema_that_cannot_become_columns_is_named_until_it_is_retired(before: list[Any], client: Any) -> None:
    nodes = SchemaNodes(client)
    for number, schema in enumerate([*before, UNFIT], 1):
        nodes.add("things", number, schema.text)
    number = len(before) + 1
    [(where, what)] = found(client)
    assert where == "schemas of topic things"
    assert what.startswith(f"loads put the events of schema {number} into quarantine: ")
    assert "field x: its fields a and A are one" in what
    SchemaRegistry(client).retire("things", number)
    assert found(client) == []


def test_a_type_that_excludes_another_one_is_named(client: Any) -> None:
    registry = SchemaRegistry(client)
    registry.register("things", GOOD)
    registry.register("things", TEXT, force=True)
    [(_, what)] = found(client)
    assert what.startswith("loads put the events of schema 1 into quarantine: field x of schema 1: ")


def test_a_znode_that_is_no_schema_is_named(client: Any) -> None:
    SchemaNodes(client).add("things", 1, "{not a schema")
    [(where, what)] = found(client)
    assert where == "schemas of topic things"
    assert what.startswith("none can be used")
    SchemaNodes(client).add("things", 2, GOOD.text)
    [(_, what)] = found(client)
    assert what.startswith("znode 1 cannot be used: ")
