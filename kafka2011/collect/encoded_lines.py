"""Cuts text that is not UTF-8 into lines of UTF-8. Positions stay those of the bytes in the file."""

from __future__ import annotations

import codecs
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.collect.lines import LineCutter
    from kafka2011.collect.recognize import Encoding


class EncodedCutter:
    """Takes bytes of an encoding with units of several bytes, from the start of a unit on, and returns lines in UTF-8.

    It does for them what `cutter` does for UTF-8. What cannot be decoded becomes U+FFFD.
    """

    def __init__(self, cutter: LineCutter, encoding: Encoding) -> None:
        self._cutter = cutter
        self._unit_bytes = encoding.unit_bytes
        self._newline = "\n".encode(encoding.codec)
        self._decoder = codecs.getincrementaldecoder(encoding.codec)("replace")
        self._cut_unit = b""
        self.held_bytes = 0
        """How much of what was fed belongs to the unfinished line."""

    @property
    def too_long(self) -> int:
        """How many lines were longer than they may be."""
        return self._cutter.too_long

    @property
    def nul_bytes(self) -> int:
        """How many NUL characters were left out."""
        return self._cutter.nul_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in the chunk; what follows the last newline waits."""
        ends = self._ends(chunk)
        self.held_bytes = len(chunk) - ends[-1] if ends else self.held_bytes + len(chunk)
        whole = self._cut_unit + chunk
        self._cut_unit = whole[len(whole) - len(whole) % self._unit_bytes :]
        return self._cutter.feed(self._decoder.decode(chunk).encode())

    def starts(self, chunk: bytes) -> list[int]:
        """Return where the lines begin that `feed` would return for a chunk, counted from the chunk's first byte on."""
        starts = [-self.held_bytes, *self._ends(chunk)][:-1]
        state = self._decoder.getstate()
        text = self._decoder.decode(chunk).encode()
        self._decoder.setstate(state)
        places = list(accumulate((len(line) + 1 for line in text.split(b"\n")[:-1]), initial=0))[:-1]
        if places:
            places[0] -= self._cutter.held_bytes
        start_of = dict(zip(places, starts, strict=True))
        return [start_of[place] for place in self._cutter.starts(text)]

    def finish(self) -> list[bytes]:
        """Return the unfinished line as it is, or nothing if there is none."""
        self.held_bytes = 0
        self._cut_unit = b""
        rest = self._decoder.decode(b"", final=True).encode()
        self._decoder.reset()
        return [*self._cutter.feed(rest), *self._cutter.finish()]

    def _ends(self, chunk: bytes) -> list[int]:
        """Return the places in a chunk that follow a newline."""
        before = len(self._cut_unit)
        data = self._cut_unit + chunk
        ends = []
        at = data.find(self._newline)
        while at >= 0:
            if at % self._unit_bytes == 0:
                ends.append(at + self._unit_bytes - before)
                at += self._unit_bytes
            else:
                at += 1
            at = data.find(self._newline, at)
        return ends
