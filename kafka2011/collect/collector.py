"""The collector: reads and sends its inputs until everything is confirmed or it is stopped."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError, LogError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.delivery import Delivery
    from kafka2011.collect.line_inputs import LineInputs
    from kafka2011.collect.positions import Positions
    from kafka2011.collect.watched_files import WatchedFiles
    from zk.clock import Clock

logger = logging.getLogger(__name__)

POLL_S = 0.25
"""How often files are looked at."""
SAVE_S = 1.0
"""How often positions are saved: after kill -9, about this much is sent again, plus what was unconfirmed."""
FIRST_SAVE_S = 1 / 16
"""Time to the next save after the first confirmation, which is saved at once; it doubles until it is SAVE_S.

So a collector that is killed again and again makes progress, and repeats about as much as it progressed.
"""
_MOMENT_S = 0.05


class Collector:
    """Sends lines from files and, through their spool, from other `inputs`, and saves how far they are confirmed.

    `before_save` is called before positions are saved; if it raises KafkaError they are not saved. `wake` is set when
    the spool has something new. At the end `run` closes everything except the positions.
    """

    def __init__(
        self,
        files: WatchedFiles,
        positions: Positions,
        delivery: Delivery,
        counts: CollectCounts,
        clock: Clock,
        *,
        inputs: LineInputs | None = None,
        before_save: Callable[[], object] = lambda: None,
        stop: threading.Event,
        wake: threading.Event,
    ) -> None:
        self._files = files
        self._positions = positions
        self._delivery = delivery
        self._counts = counts
        self._clock = clock
        self._inputs = inputs
        self._spool = None if inputs is None else inputs.spool
        self._before_save = before_save
        self._stop = stop
        self._wake = wake
        self._look_at_s = self._save_at_s = clock.monotonic_s()
        self._save_interval_s = 0.0  # until something is confirmed
        self._spool_in = 0  # how many files are read before the spool
        self._trouble = ""  # the latest trouble with the spool or the positions

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
            self._save(whole=True)
            if self._spool is not None:
                self._spool.close()

    def _read(self) -> bool:
        """Read and send a piece from everything that has one; say whether anything had."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._look_at_s:
            self._files.look()
            self._look_at_s = now_s + POLL_S
        is_busy = False
        for _ in range(self._files.ready + 1):  # a turn for each, and one for the spool
            if not self._delivery.has_room:
                return False
            is_busy |= self._take_turn()
        return is_busy

    def _take_turn(self) -> bool:
        """Send a piece of whatever is next: each file that has something, then the spool."""
        if not self._spool_in:
            self._spool_in = self._files.ready
            return self._read_spool()
        self._spool_in -= 1
        lines_read = self._files.read()
        if lines_read is None:
            self._spool_in = 0
            return False
        tail, piece = lines_read
        self._delivery.send(piece.lines, tail.path, partial(tail.confirm, piece))
        return True

    def _read_spool(self) -> bool:
        spool = self._spool
        if spool is None:
            return False
        try:
            batch = spool.read()
        except LogError as error:
            self._tell(f"cannot read the spool: {error}")
            self._counts.add(failed_reads=1)
            return False
        if batch is None:
            return False
        lines, offset = batch
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
        """Stop reading, and wait for what was sent."""
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
        if not self._save_interval_s and self._counts.lines_confirmed:
            self._save_interval_s = FIRST_SAVE_S
        elif now_s < self._save_at_s:
            return
        else:
            self._save_interval_s = min(2 * self._save_interval_s, SAVE_S)
        self._save()
        self._save_at_s = now_s + (self._save_interval_s or SAVE_S)

    def _save(self, *, whole: bool = False) -> None:
        spool = self._spool
        if spool is not None:
            self._positions.spool_offset = spool.confirmed_offset
        try:
            self._before_save()
            self._positions.save(whole=whole)
        except KafkaError as error:
            self._counts.add(failed_saves=1)
            self._tell(f"{self._positions.path} is not saved, so more may be sent again: {error}")
        except OSError as error:
            self._counts.add(failed_saves=1)
            self._tell(f"cannot save {self._positions.path}, so more may be sent again: {error.strerror}")
        else:
            self._trouble = ""
            if spool is not None:
                spool.trim()

    def _tell(self, trouble: str) -> None:
        """Log what is wrong, once while it lasts."""
        if trouble != self._trouble:
            self._trouble = trouble
            logger.error("%s", trouble)
