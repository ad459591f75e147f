"""What must hold at every moment: the queues' bounds, and that nothing is missing from what they count."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.config import ProducerConfig
    from kafka2011.producer.accumulator import Accumulator
    from kafka2011.producer.batch import Batch, Bound
    from tests.models.producer.account import Account


class Bounds:
    """Checks an accumulator whenever its lock is released.

    Four things may exceed a bound, as documented: batches that moved, sets in doubt, a single send that is larger than
    it, and the bytes in open batches, which are counted when they close.
    """

    def __init__(self, accumulator: Accumulator, config: ProducerConfig, account: Account, open_batches: int) -> None:
        self._accumulator = accumulator
        self._config = config
        self._account = account
        self._open_bytes = open_batches * accumulator._batch_bytes
        self._released: set[Batch] = set()
        release, hold = accumulator._release, accumulator._hold

        def noted_release(batch: Batch) -> None:
            self._released.add(batch)
            release(batch)

        def noted_hold(batch: Batch, messages: int, size_bytes: int) -> None:
            self._released.discard(batch)
            hold(batch, messages, size_bytes)

        accumulator._release = noted_release  # type: ignore[method-assign]
        accumulator._hold = noted_hold  # type: ignore[method-assign]

    def check(self) -> None:
        """Raise AssertionError where something does not hold. Needs the lock."""
        held: dict[Bound, list[Batch]] = {queue.bound: [] for queue in self._accumulator.queues.values()}
        for batch in self._accumulator.open_batches - self._released:
            held.setdefault(batch.bound, []).append(batch)
        for bound, batches in held.items():
            self._check_one(bound, batches)

    def _check_one(self, bound: Bound, batches: list[Batch]) -> None:
        messages = room_bytes = own_messages = own_bytes = 0
        for batch in batches:
            is_open = id(batch) in self._accumulator.queues[batch.where.broker_id].open
            number = len(batch.payloads) if is_open else batch.messages
            size_bytes = 0 if is_open else batch.size_bytes
            messages += number
            room_bytes += size_bytes
            if batch not in self._account.moved and not batch.suspect:
                own_messages += number
                own_bytes += size_bytes
        assert bound.max_messages - bound.room_messages == messages, "messages are counted wrongly"
        assert bound.max_bytes - bound.room_bytes == room_bytes, "bytes are counted wrongly"
        largest, largest_bytes = self._account.largest_send
        assert own_messages <= max(bound.max_messages, largest), f"{own_messages} messages wait: {self._config}"
        most_bytes = max(bound.max_bytes, largest_bytes) + self._open_bytes
        assert own_bytes <= most_bytes, f"{own_bytes} bytes wait: {self._config}"

    def check_empty(self) -> None:
        """Raise AssertionError where something is still held."""
        self.check()
        assert not self._accumulator.open_batches, "not every batch has ended"
