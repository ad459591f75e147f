"""The tables beside Kafka 4: what is read of its protocol, when a group has settled, and the chapter."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from paper_benchmarks.experiments.beside import TABLES, TEXT, chapter
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import STORED_BYTES
from paper_benchmarks.workers.fan import FETCH_BYTES, end_of_kafka, kafka_request, requests_of_ours
from paper_benchmarks.workers.kafka_members import Notes, noted


def batch(base: int, records: int, size: int = 80) -> bytes:
    """Return the head of a record batch, with so many bytes in all."""
    return struct.pack(">qi", base, size - 12) + bytes(11) + struct.pack(">i", records - 1) + bytes(size - 27)


def answer(batches: bytes, error: int = 0) -> bytes:
    """Return what follows the size of an answer to a fetch (version 4) of partition 0 of `views`."""
    head = struct.pack(">iiih", 1, 0, 1, 5) + b"views" + struct.pack(">iih", 1, 0, error)
    return head + struct.pack(">qqi", 100, 100, -1) + struct.pack(">i", len(batches)) + batches


def test_a_fetch_goes_on_behind_the_last_whole_batch() -> None:
    """One that is cut at the end of an answer comes again; none is the end of the topic."""
    assert end_of_kafka(answer(batch(40, 10) + batch(50, 7)), "views") == 57
    assert end_of_kafka(answer(batch(40, 10) + batch(50, 7)[:70]), "views") == 50
    assert end_of_kafka(answer(b""), "views") is None
    with pytest.raises(BenchmarkError, match="error 3"):
        end_of_kafka(answer(b"", error=3), "views")


def test_a_request_of_kafka_has_its_size_and_ends_with_what_it_wants() -> None:
    """Partition, offset, and at most how many bytes."""
    request = kafka_request("views", 7)
    assert struct.unpack_from(">i", request)[0] == len(request) - 4
    assert struct.unpack(">iqi", request[-16:]) == (0, 7, FETCH_BYTES)


def test_requests_for_a_log_of_ours_cover_it_in_whole_messages() -> None:
    """The last one is shorter."""
    assert FETCH_BYTES % STORED_BYTES == 0
    assert len(requests_of_ours("views", 2 * FETCH_BYTES)) == 2
    assert len(requests_of_ours("views", 2 * FETCH_BYTES + STORED_BYTES)) == 3


def test_ours_and_kafka_stand_one_below_the_other() -> None:
    """What only one of them has is a dash in the other, and each table is explained."""
    assert TABLES.keys() == TEXT.keys()
    tables = {
        "Partitions": {
            "kafka2011": {"1": {"rate": [1.0, 3.0], "MiB": [4.0, 4.0]}, "5,000": {"rate": [2.0], "MiB": [5.0]}},
            "Kafka 4": {"1": {"rate": [0.5, 0.5]}},
        }
    }
    assert chapter({"tables": tables}, Path()).splitlines()[-3:] == [
        "| 1 | kafka2011 | 2.00 (1.00 to 3.00) | 4.00 (4.00 to 4.00) |",
        "| 1 | Kafka 4 | 0.500 (0.500 to 0.500) | - |",
        "| 5,000 | kafka2011 | 2.00 | 5.00 |",
    ]


def test_members_of_all_processes_count_together(tmp_path: Path) -> None:
    """How many partitions they have, and how many of them have some."""
    notes = Notes(str(tmp_path), 3)
    for member, partitions in ((0, 4), (2, 1), (0, 3)):
        notes.note(member, partitions)
    (tmp_path / "1234").write_text("5\n0\n")
    assert noted(tmp_path) == (9, 3)
    Notes("", 1).note(0, 1)  # without a directory nothing is written
