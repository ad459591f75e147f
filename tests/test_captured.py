"""The bytes of Kafka 0.7 in `tests.support`, compared with those captured from a running 0.7.2.

The captured ones lie beside the checkout (`tests.support.captured`). Where they are absent this file is not collected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import bytes_of_07, edge_cases_of_07, znodes_of_07
from tests.support.captured import CAPTURED

if TYPE_CHECKING:
    from pathlib import Path

EDGE_CASES = "probe_edge_cases.txt"
SEGMENT_FILES = {"cap-0": "nocompression", "capgz-0": "gzip", "capsn-0": "snappy"}


def typed() -> dict[str, bytes]:
    """List what we typed by the names of the captured files."""
    files = {f"{name}.request.bin": sent for name, sent in (bytes_of_07.PRODUCED | bytes_of_07.CLOSED).items()}
    files |= dict.fromkeys((name.replace(".request", ".response") for name in files), b"")
    for name, (sent, answered) in bytes_of_07.ANSWERED.items():
        files |= {f"{name}.request.bin": sent, f"{name}.response.bin": answered}
    for name, segment in bytes_of_07.SEGMENTS.items():
        files[f"segment_{name}_{SEGMENT_FILES[name]}.kafka"] = segment
    for name, znodes in znodes_of_07.DUMPS.items():
        files[f"zk_{name}.txt"] = "".join(f"{znode.line}\n" for znode in znodes).encode()
    return files


FILES = [path for path in sorted(CAPTURED.iterdir()) if path.name not in {"README.md", EDGE_CASES}]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_we_typed_is_what_was_captured(path: Path) -> None:
    """Each file, byte for byte."""
    assert typed()[path.name] == path.read_bytes()


def test_nothing_typed_was_made_up() -> None:
    """For all of it there is a captured file."""
    assert typed().keys() == {path.name for path in FILES}


def test_edge_cases_are_those_of_a_real_broker() -> None:
    """In the same order; the captured answers come without their size."""
    lines = (CAPTURED / EDGE_CASES).read_text().splitlines()
    captured = [(label.strip(), reply) for label, reply in (line.split(" -> ") for line in lines)]
    cases = edge_cases_of_07.EDGE_CASES
    assert captured == [(case.label, "CLOSED" if case.reply is None else case.reply[4:].hex()) for case in cases]
