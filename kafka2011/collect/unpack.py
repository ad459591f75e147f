"""Opens compressed files to read their content. What Python cannot read piece by piece goes to a temporary file."""

from __future__ import annotations

import importlib
import mmap
import tempfile
from typing import TYPE_CHECKING, BinaryIO, cast

import cramjam

from kafka2011.collect.recognize import Packing, packing_of
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULES = {
    Packing.GZIP: "gzip",
    Packing.BZIP2: "bz2",
    Packing.XZ: "lzma",
    Packing.LZMA: "lzma",
    Packing.ZSTD: "compression.zstd",
}
"""Python's modules that read compressed files; the last came with 3.14, and a Python may be built without others."""
_LIBRARY = {Packing.ZSTD: cramjam.zstd, Packing.LZ4: cramjam.lz4}


class UnpackError(KafkaError):
    """A compressed file cannot be read; the text says why."""


def open_unpacked(file: BinaryIO) -> BinaryIO:
    """Return the content of a compressed file, which is a regular one and stays open. Raises UnpackError, OSError."""
    file.seek(0)
    packing = packing_of(file.read(16))
    file.seek(0)
    if packing is None:
        raise UnpackError("it is not compressed in a known way")
    try:
        module = importlib.import_module(_MODULES[packing])
    except (KeyError, ImportError):
        return _unpacked_aside(file, packing)
    opened: Callable[[BinaryIO, str], BinaryIO] = module.open
    return opened(file, "rb")


def _unpacked_aside(file: BinaryIO, packing: Packing) -> BinaryIO:
    library = _LIBRARY.get(packing)
    if library is None:
        raise UnpackError(f"nothing here reads files that are compressed with {packing}")
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as packed:
        unpacked = tempfile.NamedTemporaryFile(prefix="kafka2011-unpacked-")  # noqa: SIM115 (the caller closes it)
        try:
            library.decompress_into(packed, cramjam.File(unpacked.name))
        except cramjam.DecompressionError as error:
            unpacked.close()
            raise UnpackError(f"it cannot be unpacked: {error}") from error
        except BaseException:
            unpacked.close()
            raise
    unpacked.seek(0)
    return cast("BinaryIO", unpacked)
