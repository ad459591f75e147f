"""Bytes on disk and on the wire: what files are for, what a relay counts, and what comes out of both."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments.section_5_compact_format import chapter, more_space, on_disk
from paper_benchmarks.measuring.stored_files import Stored, growth, sizes, stored_files, written_bytes
from paper_benchmarks.systems.relay import Relay
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

LINE = {"kind": "kafka2011", "version": "1", "stored_messages": 10}
BODY: dict[str, Any] = {
    "payload_bytes": 200,
    "lines": [
        {
            **LINE,
            "title": "kafka2011, magic 0",
            "files": {"log": {"written": 2090, "room": 4096}},
            "wire": {
                "50 a send": {"to_server": 210.0, "to_client": 0.0},
                "read": {"to_server": 0.5, "to_client": 209.5},
            },
        },
        {
            **LINE,
            "title": "ActiveMQ",
            "files": {"journal": {"written": 3000, "room": 33_554_432}, "index": {"written": 440, "room": 4096}},
            "wire": {"a message a send": {"to_server": 300.0, "to_client": 20.0}, "read": None},
        },
        {**LINE, "title": "nothing on disk", "files": {"other files": {"written": 10, "room": 0}}, "wire": {}},
    ],
}


def test_a_message_takes_what_all_files_grew_by() -> None:
    """Beyond its payload that is overhead; a system that stores nothing has no line."""
    found = on_disk(BODY)
    assert found["kafka2011, magic 0"] == (209.0, 409.6, 9.0)
    assert found["ActiveMQ"].overhead == 144.0
    assert list(found) == ["kafka2011, magic 0", "ActiveMQ"]


def test_space_is_compared_with_the_papers_format() -> None:
    """344 against 209, which the paper calls 70%."""
    assert more_space(BODY, "ActiveMQ") == pytest.approx(0.646, abs=0.001)
    assert more_space(BODY, "nothing on disk") is None


def test_the_chapter_has_all_that_was_measured(tmp_path: Path) -> None:
    """On disk, by files, and on the wire."""
    text = chapter(BODY, tmp_path)
    assert "| ActiveMQ | 344.0 | 144.0 | 3,355,852.8 | +64.6% |" in text
    assert "| ActiveMQ | journal | 300.0 | 3,355,443.2 |" in text
    assert "| kafka2011, magic 0 | - | 210.0 + 0.0 | 0.5 + 209.5 |" in text
    assert (tmp_path / "storage.svg").exists()


def test_files_have_purposes_by_their_names(tmp_path: Path) -> None:
    """Several of one purpose count together; blocks of zeros were not written yet."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "db-1.log").write_bytes(b"x" * 5000 + b"\0" * 10_000)
    (tmp_path / "data" / "db-2.log").write_bytes(b"\0x" + b"\0" * 5000 + b"x")
    (tmp_path / "data" / "db.data").write_bytes(b"i" * 10)
    (tmp_path / "server.out").write_bytes(b"ready")
    found = stored_files(tmp_path)
    assert {purpose: stored.written for purpose, stored in found.items()} == {
        "journal": 8192 + 5003,
        "index": 10,
        "other files": 5,
    }
    assert found["journal"].room >= 10_000


@pytest.mark.parametrize("zeros", [0, 1, 4096, 10_000])
def test_blocks_of_zeros_do_not_count(tmp_path: Path, zeros: int) -> None:
    """Wherever they lie: before what is written at the end of a journal, too."""
    path = tmp_path / "file"
    path.write_bytes(b"\0" * zeros)
    assert written_bytes(path) == 0
    path.write_bytes(b"x" * 4096 + b"\0" * zeros * 4096 + b"x")
    assert written_bytes(path) == 4097


def test_files_that_grow_are_noticed(tmp_path: Path) -> None:
    """Not those that are written in place, as an index is again and again, even at rest."""
    path = tmp_path / "db.data"
    path.write_bytes(b"x" * 10_000)
    os.utime(path, ns=(1, 1))
    before = sizes(tmp_path)
    path.write_bytes(b"y" * 10_000)
    assert sizes(tmp_path) == before
    path.write_bytes(b"y" * 20_000)
    assert sizes(tmp_path) != before


def test_only_what_changed_has_grown() -> None:
    """What is new grew from nothing."""
    before = {"log": Stored(10, 4096), "other files": Stored(5, 4096)}
    after = {"log": Stored(30, 8192), "other files": Stored(5, 4096), "index": Stored(1, 4096)}
    assert growth(before, after) == {"log": Stored(20, 4096), "index": Stored(1, 4096)}


def test_a_relay_passes_everything_on_and_counts_it() -> None:
    """Both ways, the end of a stream too, for several clients."""
    with socket.create_server(("127.0.0.1", 0)) as server, Relay(*server.getsockname()) as relay:
        server.settimeout(30)
        for _ in range(2):
            with socket.create_connection(relay.address, 30) as client:
                accepted, _ = server.accept()
                with accepted:
                    accepted.settimeout(30)
                    client.sendall(b"x" * 1000)
                    client.shutdown(socket.SHUT_WR)
                    assert accepted.recv(2000, socket.MSG_WAITALL) == b"x" * 1000
                    accepted.sendall(b"done")
                assert client.recv(10, socket.MSG_WAITALL) == b"done"
        assert (relay.to_server, relay.to_clients) == (2000, 8)


def test_a_relay_ends_a_client_whose_server_is_gone() -> None:
    """And goes on to serve others."""
    with socket.create_server(("127.0.0.1", 0)) as server, Relay(*server.getsockname()) as relay:
        server.settimeout(30)
        with socket.create_connection(relay.address, 30) as client:
            accepted, _ = server.accept()
            accepted.close()
            assert client.recv(1) == b""
        with socket.create_connection(relay.address, 30) as client:
            accepted, _ = server.accept()
            with accepted:
                accepted.settimeout(30)
                client.sendall(b"again")
                assert accepted.recv(5, socket.MSG_WAITALL) == b"again"
            eventually(lambda: relay.to_server == 5)
