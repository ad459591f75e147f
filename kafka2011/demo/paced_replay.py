"""Replaying a log into a topic, as fast as possible or at a pace."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from kafka2011.demo.patience import Patience, how_busy
from kafka2011.demo.records import numbered
from kafka2011.producer.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from kafka2011.producer.batch import Receipt

TICK_S = 0.02
_KEYS = 64


class PacedReplay:
    """Sends every line once, spread evenly over `seconds`, in a thread, with keys that spread them over all partitions.

    Asynchronous and confirmed: `finish` waits until a broker has every line in its log, or raises what went wrong.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        topic: str,
        lines: Sequence[bytes],
        seconds: float,
        on_sent: Callable[[int], None] = lambda _lines: None,
    ) -> None:
        self._settings = {**settings, "producer.type": "async", "confirm": "true", "queue.time": "50"}
        self._topic = topic
        self._lines = lines
        self._seconds = seconds
        self._on_sent = on_sent
        self._failure: BaseException | None = None
        self._sent = self._confirmed = 0
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self.resent_sets = 0

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def finish(self) -> None:
        """Wait until all is sent and confirmed, as long as something is. Raises TimeoutError, or a send's error."""
        patience = Patience(lambda: (self._sent, self._confirmed))
        while self._thread.is_alive():
            if patience.is_over():
                raise TimeoutError(
                    f"nothing was sent or confirmed for {patience.still_s:g} s: {self._confirmed} of"
                    f" {len(self._lines)} lines are confirmed ({how_busy()})"
                )
            self._thread.join(TICK_S)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with Producer(self._settings) as producer:
                for sending in self._send_all(producer):
                    sending.result()
                    self._confirmed += 1
                self.resent_sets = producer.counts.sets_resent
        except BaseException as error:  # noqa: BLE001 - raised by finish, in the thread that waits
            self._failure = error

    def _send_all(self, producer: Producer) -> list[Future[Receipt]]:
        started_s = time.monotonic()
        sends: list[Future[Receipt]] = []
        total = len(self._lines)
        done = 0
        while done < total:
            elapsed_s = time.monotonic() - started_s
            due = total if elapsed_s >= self._seconds else int(total * elapsed_s / self._seconds)
            for number in range(done + 1, due + 1):
                line = self._lines[number - 1]
                key = f"line {number % _KEYS}"  # lines of one key keep their order
                sends.append(producer.send(self._topic, numbered(number, line), key=key))
            self._on_sent(due - done)
            self._sent = done = due
            time.sleep(TICK_S)
        return sends
