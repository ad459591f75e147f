"""Schemas in the shapes that public ones have; each is ours, and copies none of them.

`SHAPES` has for each the fields after the header and what else the record says. Types that other files define are in
`REFERENCES`, by the shape that names them.
"""

from __future__ import annotations

import json
from typing import Any

from kafka2011.events.schemas import HEADER, EventSchema

Field = dict[str, Any]


def of(name: str, kind: Any, **more: Any) -> Field:
    return {"name": name, "type": kind, **more}


def optional(name: str, kind: Any, **more: Any) -> Field:
    return of(name, ["null", kind], default=None, **more)


def record(name: str, *fields: Field, **more: Any) -> Field:
    return {"type": "record", "name": name, **more, "fields": list(fields)}


def array(items: Any) -> Field:
    return {"type": "array", "items": items}


def mapped(values: Any) -> Field:
    return {"type": "map", "values": values}


def logical(kind: str, logical_type: str, **more: Any) -> Field:
    return {"type": kind, "logicalType": logical_type, **more}


SKY = "sky.v7_1"
BANDS = ("u", "g", "r", "i", "z", "y")
SOURCE = record(
    "source",
    of("sourceId", "long", doc="identifies the detection"),
    of("ra", "double"),
    *(optional(f"{band}Flux", "float") for band in BANDS),
    *(optional(f"{band}FluxErr", "float") for band in BANDS),
    of("flags", "long", default=0),
    optional("isDipole", "boolean"),
    namespace=SKY,
    doc="a detection",
)
OBJECT = record("object", of("objectId", "long"), *(optional(f"{band}Mean", "double") for band in BANDS), namespace=SKY)

ROW = record(
    "Value",
    of("id", "int"),
    of("small", {"type": "int", "connect.type": "int16"}, default=0),
    optional("price", {"type": "bytes", "scale": 2, "precision": 12, "logicalType": "decimal", "connect.version": 1}),
    of("changed", {"type": "long", "connect.version": 1, "connect.name": "io.example.time.MicroTimestamp"}, default=0),
    optional(
        "state", {"type": "string", "connect.parameters": {"allowed": "NEW,PAID"}, "connect.name": "io.example.Enum"}
    ),
)
ORIGIN = record(
    "Source",
    of("version", "string"),
    of("snapshot", [{"type": "string", "connect.default": "false"}, "null"], default="false"),
    of("db", "string"),
    optional("lsn", "long"),
    namespace="io.example.connector",
)
BLOCK = record("block", of("id", "string"), of("total_order", "long"), namespace="event")

ADDRESS = record("Address", of("street", "string"), optional("country", "string"), namespace="shop.common")
LINK = record("Link", of("value", "long"), optional("next", "Link"))
CALL = record(
    "Call",
    of("sample", ["null", "string"]),
    of("genotype", array("int"), default=[]),
    of("info", mapped(array("string")), default={}),
)

SHAPES: dict[str, dict[str, Any]] = {
    "an alert of a telescope": record(
        "alert",
        of("alertId", "long"),
        of("diaSource", f"{SKY}.source"),
        optional("prvSources", array("source")),
        optional("object", f"{SKY}.object"),
        optional("cutout", "bytes"),
        namespace=SKY,
    ),
    "the envelope of a changed row": record(
        "Envelope",
        optional("before", ROW),
        optional("after", "Value"),
        of("source", ORIGIN),
        of("op", "string"),
        optional("ts_ms", "long"),
        optional("transaction", BLOCK),
        namespace="server1.inventory.orders",
        **{"connect.version": 1, "connect.name": "server1.inventory.orders.Envelope"},
    ),
    "the key of a changed row": record(
        "Key",
        of("orderId", {"type": "int", "connect.default": 0}, default=0),
        namespace="server1.inventory.orders",
        **{"connect.name": "server1.inventory.orders.Key"},
    ),
    "a customer with strings of Java": record(
        "Customer",
        of("name", {"type": "string", "avro.java.string": "String"}),
        of("addresses", array(ADDRESS)),
        of(
            "contact",
            [record("Mail", of("mail", "string")), record("Phone", of("number", "string"), of("kind", "string"))],
        ),
        of("balance", logical("bytes", "decimal", precision=9, scale=2), default="\u0000"),
        of("since", logical("int", "date")),
        namespace="shop.customers",
    ),
    "an order that names types of other files": record(
        "Order", of("to", "shop.common.Address"), optional("from", "shop.common.Address"), namespace="shop.orders"
    ),
    "trucks with texts for all": record(
        "trucks",
        of("eventTime", "string"),
        of("driverId", "int"),
        of("route", "string", default=""),
        of("latitude", "double", default=0.0),
        of("correlationId", "long"),
        namespace="fleet.registries",
    ),
    "a click with a default for all": record(
        "DefaultEventRecord",
        of("detectedDuplicate", "boolean"),
        of("firstInSession", "boolean", default=False),
        of("location", ["null", "string"], default=None),
        of("viewportPixelWidth", ["null", "int"], default=None),
        of("parameters", mapped("string"), default={}),
        namespace="clicks.record",
    ),
    "a table that Spark wrote": record(
        "topLevelRecord",
        of("name", ["string", "null"]),
        of("tags", [array(["string", "null"]), "null"]),
        of("props", [mapped(["long", "null"]), "null"]),
        of("inner", [record("inner", of("d", ["double", "null"]), namespace="topLevelRecord"), "null"]),
        of(
            "amount",
            [
                logical(
                    "fixed", "decimal", name="fixed", namespace="topLevelRecord.amount", size=9, precision=20, scale=4
                ),
                "null",
            ],
        ),
        of("at", [logical("long", "timestamp-micros"), "null"]),
    ),
    "a variant of a genome": record(
        "Variant",
        of("referenceName", "string"),
        of("start", "long"),
        of("alternateBases", array("string"), default=[]),
        of("calls", array(CALL), default=[]),
        optional("quality", "double"),
        of("strand", {"type": "enum", "name": "Strand", "symbols": ["NEG", "POS"]}),
        namespace="genomes.models",
    ),
    "a list within itself": record("Chain", of("head", LINK), namespace="lists"),
    "a tree of two records": record(
        "Directory",
        of(
            "root",
            record(
                "Node",
                of("name", "string"),
                of("entry", ["null", record("Leaf", of("size", "long")), record("Branch", of("nodes", array("Node")))]),
            ),
        ),
        namespace="trees",
    ),
    "an error in a field": record(
        "Answer",
        of("failure", ["null", {"type": "error", "name": "Failure", "fields": [of("text", "string")]}], default=None),
        namespace="calls",
    ),
    "all logical types": record(
        "Times",
        of("day", logical("int", "date")),
        of("clock", logical("int", "time-millis")),
        of("micros", logical("long", "time-micros")),
        of("at", logical("long", "timestamp-millis")),
        of("local", logical("long", "local-timestamp-millis")),
        of("exact", logical("long", "local-timestamp-micros")),
        of("nanos", logical("long", "timestamp-nanos")),
        of("took", logical("fixed", "duration", name="Took", size=12)),
        of("key", logical("string", "uuid")),
        of("site", logical("string", "url")),
        of("odd", logical("bytes", "decimal")),
        namespace="times",
    ),
    "types by dictionaries": record(
        "Wrapped",
        of("a", {"type": "string"}),
        of("b", [{"type": "null"}, {"type": "long"}]),
        of("c", array({"type": "int"})),
    ),
    "names of two namespaces": record(
        "Outer",
        of("one", record("Same", of("a", "int"), namespace="first")),
        of("two", record("Same", of("b", "string"), namespace="second")),
        of("again", array("first.Same")),
        namespace="third",
    ),
    "a renamed record": record(
        "Visit",
        of("page", record("WebPage", of("address", "string", aliases=["url"]), aliases=["Page", "old.Page"])),
        namespace="visits",
        aliases=["PageView"],
    ),
    "a hundred columns": record("Wide", *(optional(f"column_{n}", "string") for n in range(100)), namespace="wide"),
    "documentation everywhere": record(
        "Documented",
        of(
            "kind",
            {"type": "enum", "name": "Kind", "symbols": ["A"], "doc": "kinds", "default": "A"},
            doc="a kind",
            order="ignore",
        ),
        of("hash", {"type": "fixed", "name": "Md5", "size": 16, "doc": "a hash"}, order="descending"),
        doc="all of it",
        namespace="docs",
    ),
}
"""Records of events, by what they are like."""

REFERENCES: dict[str, list[Any]] = {
    "an alert of a telescope": [OBJECT, SOURCE],
    "an order that names types of other files": [ADDRESS],
}


def schema_of(shape: str) -> EventSchema:
    """Return the schema of a shape, with the header, and with the types of the files that it refers to."""
    document = SHAPES[shape]
    text = json.dumps({**document, "fields": [*HEADER, *document["fields"]]})
    return EventSchema.with_references(text, [json.dumps(each) for each in REFERENCES.get(shape, ())])
