"""Our check, our reader and Avro's library for Java, held against each other.

The library is the one that PySpark brings. The pairs of schemas are generated: see tests/support/schema_pairs.py.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.events.codec import HEADER_BYTES, EventDecoder, EventEncoder
from kafka2011.events.errors import UndecodableEventError
from kafka2011.events.schemas import EventSchema, KnownSchemas, why_unreadable
from tests.support.public_shapes import SHAPES, schema_of
from tests.support.schema_pairs import SchemaPair, covering, schema_pairs
from tests.support.schema_texts import JAVA_TAKES, REFUSED, TAKEN, with_field

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = Path(__file__).with_name("avro") / "AvroOfJava.java"
LIBRARIES = ("avro", "jackson-core", "jackson-databind", "jackson-annotations", "slf4j-api", "commons-compress")
TIMEOUT_S = 600
PAIRS = 5000

pytestmark = pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK")


def answers(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what Java's library says of pairs of schemas."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    directory = Path(spark.origin).parent / "jars"
    jars = [str(jar) for name in LIBRARIES for jar in directory.glob(f"{name}-[0-9]*.jar")]
    assert len(jars) == len(LIBRARIES), jars
    command = ["java", "-cp", ":".join(jars), str(PROGRAM)]
    text = "".join(f"{json.dumps(question)}\n" for question in questions)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(questions), done.stderr
    return found


def bodies(schema: EventSchema, events: Sequence[dict[str, Any]]) -> list[bytes]:
    return EventEncoder(KnownSchemas({"things": schema})).encode_all("things", events)


def question(pair: SchemaPair, payloads: Sequence[bytes]) -> dict[str, Any]:
    encoded = [base64.b64encode(payload[HEADER_BYTES:]).decode() for payload in payloads]
    return {"writer": pair.writer.text, "reader": pair.reader.text, "bodies": encoded}


def value_of(pair: SchemaPair, payload: bytes) -> Any:
    """Return an event as our reader gets it, as JSON; None if it refuses it."""
    decoder = EventDecoder(KnownSchemas({"things": pair.writer}), pair.reader)
    try:
        return plain(decoder.decode_payload(payload).fields)
    except UndecodableEventError:
        return None


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value


def test_check_reader_and_java_agree_on_pairs_of_schemas() -> None:
    """Both checks take the same pairs, and each event that both readers read has one value.

    Java's reader does not follow all names of types that have moved to another namespace, which its check allows.
    """
    pairs = list(schema_pairs(seed=1876, count=PAIRS))
    payloads = [bodies(pair.writer, pair.events) for pair in pairs]
    questions = [question(pair, of_pair) for pair, of_pair in zip(pairs, payloads, strict=True)]
    differences = []
    compatible, by_java_alone = 0, 0
    for pair, of_pair, answer in zip(pairs, payloads, answers(questions), strict=True):
        assert "refused" not in answer, f"{answer}\n{pair.writer.text}\n{pair.reader.text}"
        ours = why_unreadable(pair.reader, pair.writer) is None
        compatible += ours
        values = [value_of(pair, payload) for payload in of_pair]
        both = [] if '"moved"' in pair.reader.text else [*zip(values, answer["values"], strict=True)]
        if ours != answer["compatible"] or any(our != java for our, java in both if None not in (our, java)):
            differences.append((pair.writer.text, pair.reader.text, ours, values, answer))
        by_java_alone += ours and any(java is None for _, java in both)
    assert not differences, f"{len(differences)} of {len(pairs)}, such as {differences[0]}"
    assert by_java_alone < PAIRS // 100  # some defaults of lists in unions
    assert PAIRS // 5 < compatible < PAIRS


def test_java_takes_the_texts_that_we_take() -> None:
    """It refuses those that we refuse, but for some that it finds out about later."""
    cases = {**REFUSED, **TAKEN}
    texts = [json.dumps(with_field(field)) for field, _ in cases.values()]
    found = answers([{"writer": text, "reader": text, "bodies": []} for text in texts])
    taken = {case for case, answer in zip(cases, found, strict=True) if "refused" not in answer}
    assert taken == TAKEN.keys() | JAVA_TAKES


def test_java_takes_schemas_in_the_shapes_of_public_ones_and_reads_their_events() -> None:
    """Each of our values is the one that Java's reader gets."""
    schemas = [schema_of(shape) for shape in SHAPES]
    pairs = [SchemaPair(schema, schema, covering(schema)) for schema in schemas]
    payloads = [bodies(pair.writer, pair.events) for pair in pairs]
    found = answers([question(pair, of_pair) for pair, of_pair in zip(pairs, payloads, strict=True)])
    for shape, pair, of_pair, answer in zip(SHAPES, pairs, payloads, found, strict=True):
        assert answer.get("compatible"), (shape, answer)
        values = [value_of(pair, payload) for payload in of_pair]
        assert values == answer["values"] or "decimal" in pair.writer.text, shape
