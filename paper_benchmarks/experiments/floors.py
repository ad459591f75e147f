"""What no path of ours can be cheaper than: the parts that any code must pay for, measured alone, by CPU time."""

from __future__ import annotations

import importlib.util
import os
import time
import zlib
from typing import TYPE_CHECKING

from paper_benchmarks.measuring.payloads import FETCH_BYTES, PAYLOAD_BYTES, STORED_BYTES
from paper_benchmarks.workers.sockets import MEMORY, SENDFILE, send_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

CALL, MEMCPY, CRC, SEND, RECV, WRITE, SENDFILE_PART = (
    "system call",
    "memcpy",
    "CRC",
    "send",
    "recv",
    "write",
    "sendfile",
)
PARTS = {
    CALL: "getppid(2), less a call of Python that does nothing",
    MEMCPY: "a copy of 1 MB in memory",
    CRC: "CRC-32 of 1 MB by PCLMUL, as the library isal has it",
    SEND: "send(2) from memory over loopback, 64 KB at once",
    RECV: "recv(2) over loopback into 1 MB",
    WRITE: "write(2) of 1 MB at once into a new file",
    SENDFILE_PART: "sendfile(2) of 200 KB at once from the page cache over loopback",
}
"""What each is; microseconds of a call, of the others microseconds of a message of ours (210 bytes)."""
_MEGABYTE = 1_000_000
_CALLS = 100_000
_COPIES = 200
_PIECE_BYTES = 64 * 1024


def measure_parts(directory: Path, megabytes: int) -> dict[str, float]:
    """Measure every part once; the bytes of files and sockets are so many megabytes."""
    path = directory / "floor"
    try:
        write_us = _write(path, megabytes)
        sent = send_file(path, MEMORY, 1, _PIECE_BYTES)
        served = send_file(path, SENDFILE, 1, FETCH_BYTES)
    finally:
        path.unlink(missing_ok=True)
    message = STORED_BYTES / _MEGABYTE
    assert sent.server_cpu_us is not None
    return {
        CALL: _calls(os.getppid),
        MEMCPY: _copy() * message,
        CRC: _crc() * PAYLOAD_BYTES / _MEGABYTE,
        SEND: sent.client_cpu_us * message,
        RECV: sent.server_cpu_us * message,
        WRITE: write_us * message,
        SENDFILE_PART: served.client_cpu_us * message,
    }


def floors(parts: Mapping[str, float], do: str, batch: int, *, is_bytes: bool = False) -> tuple[float, float]:
    """Return what a message costs client and broker at least, in microseconds, by what is done to its bytes.

    `is_bytes`: the client sends what was encoded before, or looks at nothing that it reads.
    """
    fetched = FETCH_BYTES // STORED_BYTES
    coded = 0.0 if is_bytes else parts[CRC]
    if do == "produce":
        client = parts[SEND] + parts[CALL] / batch + coded + (0.0 if is_bytes else parts[MEMCPY])
        return client, parts[RECV] + parts[CRC] + parts[WRITE]
    return parts[RECV] + coded + 2 * parts[CALL] / fetched, parts[SENDFILE_PART] + 2 * parts[CALL] / fetched


def crc32() -> Callable[[bytes], int]:
    """Return the quickest CRC that Python has here: isal's, which uses PCLMUL, or else zlib's."""
    if importlib.util.find_spec("isal") is None:
        return zlib.crc32
    from isal import isal_zlib  # noqa: PLC0415 (it may not be there)

    found: Callable[[bytes], int] = isal_zlib.crc32
    return found


def _calls(call: Callable[[], object]) -> float:
    nothing = b"".__len__
    spent_s = _timed(lambda: [call() for _ in range(_CALLS)]) - _timed(lambda: [nothing() for _ in range(_CALLS)])
    return max(spent_s, 0) / _CALLS * 1e6


def _copy() -> float:
    source, target = memoryview(os.urandom(_MEGABYTE)), memoryview(bytearray(_MEGABYTE))

    def copy() -> None:
        for _ in range(_COPIES):
            target[:] = source

    return _timed(copy) / _COPIES * 1e6


def _crc() -> float:
    piece, crc = os.urandom(_MEGABYTE), crc32()
    return _timed(lambda: [crc(piece) for _ in range(_COPIES)]) / _COPIES * 1e6


def _write(path: Path, megabytes: int) -> float:
    piece = os.urandom(_MEGABYTE)
    with path.open("xb", buffering=0) as file:
        return _timed(lambda: [file.write(piece) for _ in range(megabytes)]) / megabytes * 1e6


def _timed(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s
