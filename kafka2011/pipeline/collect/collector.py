"""The collector: reads whatever there is to read, until all of it is confirmed or somebody stops it."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from kafka2011.errors import LogError

if TYPE_CHECKING:
    import threading

    from kafka2011.pipeline.collect.counts import CollectCounts
    from kafka2011.pipeline.collect.files import Files
    from kafka2011.pipeline.collect.inputs import Inputs
    from kafka2011.pipeline.collect.positions import Positions
    from kafka2011.pipeline.collect.spool import Spool
    from kafka2011.pipeline.delivery import Delivery
    from zk.clock import Clock

logger = logging.getLogger(__name__)

POLL_S = 0.25
"""How often files are looked at."""
SAVE_S = 1.0
"""How often positions are saved: about as much comes again after kill -9, and what was unconfirmed."""
_MOMENT_S = 0.05


class Collector:
    """Sends the lines of files, and of inputs by way of the spool, and saves how far they are confirmed.

    `wake` is set when the spool has something new. `run` closes all of it in the end, except the positions.
    """

    def __init__(
        self,
        files: Files,
        positions: Positions,
        delivery: Delivery,
        counts: CollectCounts,
        clock: Clock,
        *,
        spool: Spool | None = None,
        inputs: Inputs | None = None,
        stop: threading.Event,
        wake: threading.Event,
    ) -> None:
        self._files = files
        self._positions = positions
        self._delivery = delivery
        self._counts = counts
        self._clock = clock
        self._spool = spool
        self._inputs = inputs
        self._stop = stop
        self._wake = wake
        self._look_at_s = self._save_at_s = clock.monotonic_s()
        self._trouble = ""  # the last one with the spool or the positions

    def run(self, finish_s: float) -> None:
        """Collect until the end of all inputs, or until stopped, and then up to `finish_s` until all is confirmed.

        Raises DeliveryError if it gives up what cannot be sent.
        """
        if self._inputs is not None:
            self._inputs.start()
        try:
            while not self._stop.is_set():
                is_busy = self._read()
                self._delivery.settle()
                self._save_now_and_then()
                if not is_busy:
                    if self._is_done():
                        break
                    self._pause()
            self._finish(finish_s)
        finally:
            self._end_inputs()
            self._files.close()
            self._save()
            if self._spool is not None:
                self._spool.close()

    def _read(self) -> bool:
        """Read a piece of everything that has one, and send it; say whether there was any."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._look_at_s:
            self._files.look()
            self._look_at_s = now_s + POLL_S
        is_busy = False
        for tail in list(self._files.tails.values()):
            if not self._delivery.has_room:
                return False
            if self._files.waits_for_older(tail):
                continue
            piece = self._files.read(tail)
            if piece is not None:
                self._delivery.send(piece.lines, tail.path, partial(tail.confirm, piece))
                is_busy = True
        return self._read_spool() or is_busy

    def _read_spool(self) -> bool:
        spool = self._spool
        if spool is None or not self._delivery.has_room:
            return False
        try:
            found = spool.read()
        except LogError as error:
            self._tell(f"cannot read the spool: {error}")
            self._counts.failed_reads += 1
            return False
        if found is None:
            return False
        lines, offset = found
        self._delivery.send(lines, "the spool", partial(spool.confirm, offset))
        return True

    def _is_done(self) -> bool:
        if self._inputs is not None and not self._inputs.have_ended:
            return False
        if self._spool is not None and not self._spool.is_read:
            return False
        return self._files.are_done and self._delivery.is_empty

    def _pause(self) -> None:
        """Wait for a confirmation, or for something to read."""
        if self._delivery.is_empty:
            self._wake.wait(POLL_S)
        elif not self._delivery.wait(_MOMENT_S):
            self._wake.wait(_MOMENT_S)
        self._wake.clear()

    def _finish(self, finish_s: float) -> None:
        """Read no more, and wait for what was sent."""
        deadline_s = self._clock.monotonic_s() + finish_s
        while not self._delivery.is_empty and self._clock.monotonic_s() < deadline_s:
            self._delivery.settle()
            self._save_now_and_then()
            if not self._delivery.wait(_MOMENT_S):
                self._wake.wait(_MOMENT_S)

    def _end_inputs(self) -> None:
        if self._spool is not None:
            self._spool.interrupt()
        if self._inputs is not None:
            self._inputs.stop()

    def _save_now_and_then(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s >= self._save_at_s:
            self._save()
            self._save_at_s = now_s + SAVE_S

    def _save(self) -> None:
        spool = self._spool
        if spool is not None:
            self._positions.spool_offset = spool.confirmed_offset
        try:
            self._positions.save()
        except OSError as error:
            self._counts.failed_saves += 1
            self._tell(f"cannot save {self._positions.path}, so more may come again: {error.strerror}")
        else:
            self._trouble = ""
            if spool is not None:
                spool.trim()

    def _tell(self, trouble: str) -> None:
        """Log what is wrong, once while it lasts."""
        if trouble != self._trouble:
            self._trouble = trouble
            logger.error("%s", trouble)
