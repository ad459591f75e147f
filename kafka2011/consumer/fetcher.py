"""Fetchers: one thread for each broker pulls sets for all partitions owned there (paper, sections 3.1 and 3.2).

A fetch asks only for partitions whose stream has room, so what waits in memory is bounded, and a slow stream does not
delay others. At the end of the logs one request for all partitions waits at the broker (fetch.wait.max.ms). Those that
have no room beside the others are asked for one byte, which says that there is more. A broker of 0.7 answers at once:
when there was nothing new, the fetcher then waits fetcher.backoff.ms by itself.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.consumer.simple_consumer import MAX_FETCH_BYTES, FetchedSet, SimpleConsumer, sets_for
from kafka2011.counters import Counters
from kafka2011.errors import BrokerConnectionError, KafkaError, NotAllowedError, OffsetOutOfRangeError
from kafka2011.message.header import MessageHeader, read_header
from kafka2011.outages import Outages
from kafka2011.wire.protocol import EARLIEST, LATEST
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka2011.config import ConsumerConfig
    from kafka2011.consumer.feed import PartitionFeed
    from kafka2011.consumer.owned_partition import OwnedPartition
    from zk.cluster import Broker, TopicPartition

    FetchedPartition = OwnedPartition[PartitionFeed]
    _Asked = tuple[FetchedPartition, int, int]  # with the offset, and the epoch of its feed
    Starts = Mapping[FetchedPartition, tuple[int, int]]
    StartsFound = Callable[[Starts], Mapping[FetchedPartition, KafkaError]]
    Connect = Callable[[Broker, ConsumerConfig], SimpleConsumer]

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Up to this size a message is fetched that is larger than fetch.size."""
MAX_PARTS = 1000
MAX_STARTS = 1000
"""So many starts are found together."""
MAX_WATCHED = 30_000
"""Partitions asked for one byte in one request, which has 15 bits for how many parts it has."""
LONGEST_PAUSE_S = 30.0
"""Time between two requests for the start of a partition, once the broker has failed to answer many."""
_STOP_TIMEOUT_S = 5.0


@dataclass(slots=True)
class FetchCounts(Counters):
    """What all fetchers of a connector count."""

    fetched_bytes: int = 0
    fetch_errors: int = 0
    resets: int = 0


class FetcherManager:
    """All fetchers of a connector.

    `starts_found` gets, for partitions without a usable offset, the starts that were found, and the epochs in which
    they were asked for; it writes them, lets the partitions' streams begin there, and returns what went wrong.
    """

    def __init__(self, config: ConsumerConfig, starts_found: StartsFound, connect: Connect = SimpleConsumer.of) -> None:
        self._config = config
        self._starts_found = starts_found
        self._connect = connect
        self.skips_refused = False
        """Whether partitions that may not be consumed are left out, as where a filter chose the topics."""
        self._skipped: set[str] = set()  # topics of which that was told
        self._lock = threading.Lock()
        self._fetchers: dict[tuple[int, str, int], BrokerFetcher] = {}
        self.counts = FetchCounts()

    def add(self, owned: FetchedPartition, broker: Broker) -> None:
        """Fetch a partition from its broker; find its start first if that is not known."""
        key = (broker.id, broker.host, broker.port)
        with self._lock:
            fetcher = self._fetchers.get(key)
            if fetcher is None:
                fetcher = BrokerFetcher(
                    broker, self._config, self._starts_found, self.counts, self._connect, self._refuse
                )
                self._fetchers[key] = fetcher
            fetcher.add(owned)

    def remove(self, partitions: Iterable[FetchedPartition]) -> None:
        """Stop fetching these; fetchers that have nothing left end by themselves."""
        gone = set(partitions)
        for owned in gone:
            owned.feed.recall()
        with self._lock:
            for key, fetcher in list(self._fetchers.items()):
                if not fetcher.remove(gone):
                    fetcher.stop()
                    del self._fetchers[key]

    def wake(self) -> None:
        """Have all fetchers look now at what is to be fetched."""
        with self._lock:
            for fetcher in self._fetchers.values():
                fetcher.wake()

    def make_room(self) -> None:
        """Have those fetchers look that had no room for something."""
        with self._lock:
            for fetcher in self._fetchers.values():
                if fetcher.lacks_room:
                    fetcher.wake()

    def _refuse(self, owned: FetchedPartition, epoch: int, error: NotAllowedError) -> None:
        """Let the application have the error in place of messages; or leave the partition alone for a while."""
        self.counts.add(fetch_errors=1)
        if not self.skips_refused:
            owned.feed.refuse(epoch, error)
            return
        owned.feed.postpone(LONGEST_PAUSE_S)
        if owned.where.topic not in self._skipped:
            self._skipped.add(owned.where.topic)
            logger.warning("%s; other topics go on", error)

    def close(self) -> None:
        """Stop all fetchers and wait for their threads."""
        with self._lock:
            fetchers = list(self._fetchers.values())
            self._fetchers.clear()
        for fetcher in fetchers:
            fetcher.stop()
        deadline_s = time.monotonic() + _STOP_TIMEOUT_S
        for fetcher in fetchers:
            fetcher.join(max(deadline_s - time.monotonic(), 0))


class BrokerFetcher:
    """Fetches from one broker in its own thread, until stopped."""

    def __init__(
        self,
        broker: Broker,
        config: ConsumerConfig,
        starts_found: StartsFound,
        counts: FetchCounts,
        connect: Connect,
        refuse: Callable[[FetchedPartition, int, NotAllowedError], None],
    ) -> None:
        self._refuse = refuse
        self._broker = broker
        self._fetch_bytes = config.fetch_size
        self._wait_s = config.fetch_wait_max_ms / 1000
        self._min_bytes = config.fetch_min_bytes
        self._backoff_s = config.fetcher_backoff_ms / 1000
        self._reset_time = EARLIEST if config.autooffset_reset == "smallest" else LATEST
        self._newborn_time = EARLIEST if config.autooffset_newpartitions == "smallest" else self._reset_time
        self._starts_found = starts_found
        self._counts = counts
        self._consumer = connect(broker, config)
        self._partitions: list[FetchedPartition] = []  # replaced, never changed
        self._turn = 0
        self._is_behind = False  # the last fetch brought much of its only partition
        self._has_come = False  # the last fetch brought something, of several partitions
        self._behind: set[FetchedPartition] = set()  # those of which there is more, of several
        self.lacks_room = False  # for something that the fetch under way would ask for
        self._changed = threading.Event()
        self._stopped = False
        self._warned_topics: set[str] = set()  # those with messages larger than fetch.size
        self._outages = Outages(logger)  # of partitions, and of the broker itself
        self._thread = threading.Thread(target=self._run, name=f"fetcher of broker {broker.id}", daemon=True)
        self._thread.start()

    def add(self, owned: FetchedPartition) -> None:
        """Fetch one more partition."""
        self._partitions = [*self._partitions, owned]
        self.wake()

    def remove(self, gone: set[FetchedPartition]) -> bool:
        """Stop fetching these; False when nothing is left."""
        before = len(self._partitions)
        self._partitions = [owned for owned in self._partitions if owned not in gone]
        if len(self._partitions) < before:
            self.wake()
        return bool(self._partitions)

    def wake(self) -> None:
        """Look now at what is to be fetched; does not wait itself."""
        self._changed.set()
        self._consumer.interrupt()

    def stop(self) -> None:
        """Have the thread end after the fetch under way, which waits no longer."""
        self._stopped = True
        self.wake()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread; one that waits for a silent broker is left to its socket timeout."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        with self._consumer:
            while True:
                # Before looking at anything: what changes later interrupts the wait.
                self._consumer.let_wait()
                self._changed.clear()
                if self._stopped:
                    return
                try:
                    is_idle = not self._fetch_once()
                except KafkaError as error:
                    self._report(error, None)
                    is_idle = True
                except Exception:
                    # A bug, but partitions that silently stall would be worse than a repeated report.
                    logger.exception("fetching from broker %d failed", self._broker.id)
                    self._counts.add(fetch_errors=1)
                    is_idle = True
                if is_idle and not self._stopped:
                    self._changed.wait(self._backoff_s)

    def _report(self, error: Exception, where: TopicPartition | None) -> None:
        self._counts.add(fetch_errors=1)
        self._outages.failed("fetching waits: %s", error, of=where)

    def _fetch_once(self) -> bool:
        """Fetch what there is room for; False if nothing came, and the broker did not wait for it."""
        every = self._partitions
        if not every:
            return False
        self._turn %= len(every)
        partitions = [*every[self._turn :], *every[: self._turn]]
        self._find_starts(partitions)
        if len(every) == 1:
            return self._fetch_only(every[0])
        self._behind.intersection_update(every)
        hurries = self._has_come
        asked, watched = self._reserve(partitions, hurries=hurries)
        is_behind = hurries or any(owned in self._behind for owned, _, _ in asked)
        if is_behind:
            watched = []
        elif self._behind:  # there is no room for them now: whoever makes some wakes this thread
            watched = [watch for watch in watched if watch[0] not in self._behind]
        if not asked and not watched:
            return False
        wait_s = 0.0 if is_behind else self._longest_wait_s(partitions)
        if len(watched) > MAX_WATCHED:
            watched, wait_s = watched[:MAX_WATCHED], min(wait_s, self._backoff_s)
        began_s = time.monotonic()
        came = self._has_come = self._fetch(asked, watched, wait_s)
        return came or is_behind or _has_waited(began_s, wait_s)

    def _reserve(
        self, partitions: list[FetchedPartition], *, hurries: bool
    ) -> tuple[list[_Asked], list[tuple[FetchedPartition, int]]]:
        """Reserve room, first for those of which there is more; return them, and those that have no room beside them.

        The next round begins after the last that has some, so that no partition is favoured. Who hurries, as the broker
        is not to wait, leaves those alone whose stream has no room: there may be thousands, and room for a few.
        """
        limit = max(1, min(MAX_PARTS, MAX_FETCH_BYTES // self._fetch_bytes))
        asked: list[_Asked] = []
        watched: list[tuple[FetchedPartition, int]] = []
        full: set[object] = set()
        lacks_room = False
        done = 0
        self.lacks_room = True  # until it is known
        order: Iterable[tuple[int, FetchedPartition]] = enumerate(partitions)
        if self._behind:
            order = sorted(order, key=lambda numbered: numbered[1] not in self._behind)
        for number, owned in order:
            if owned.feed.queue in full:
                continue
            reserved = owned.feed.reserve()
            if reserved is None:
                if owned.feed.lacks_room and (hurries or not owned.feed.waits_for_fetches):
                    lacks_room = True
                    full.add(owned.feed.queue)
                    continue
                offset = owned.feed.fetch_offset
                if not owned.feed.waits_for_fetches:
                    lacks_room = True
                elif offset is not None:
                    watched.append((owned, offset))
            elif len(asked) == limit:
                owned.feed.cancel()
                watched.append((owned, reserved[0]))
            else:
                asked.append((owned, *reserved))
                done = max(done, number + 1)
        self._turn += done
        self.lacks_room = lacks_room
        return asked, watched

    def _longest_wait_s(self, partitions: Iterable[FetchedPartition]) -> float:
        """Return how long the broker may wait, which is until a partition that was postponed may be fetched again."""
        resumes_s = min((owned.feed.resumes_in_s for owned in partitions), default=math.inf)
        return min(self._wait_s, resumes_s)

    def _fetch(self, asked: list[_Asked], watched: list[tuple[FetchedPartition, int]], wait_s: float) -> bool:
        unanswered = iter(asked)
        came = False
        try:
            fetches = [
                (owned.where.topic, owned.where.partition, offset, self._fetch_bytes) for owned, offset, _ in asked
            ]
            fetches += [(owned.where.topic, owned.where.partition, offset, 1) for owned, offset in watched]
            fetched_sets = self._consumer.multifetch(fetches, wait_ms=_in_ms(wait_s), min_bytes=self._min_bytes)
            self._outages.over()
            for (owned, offset, epoch), fetched in zip(unanswered, fetched_sets, strict=False):
                self._note_behind(owned, is_behind=2 * len(fetched.data) >= self._fetch_bytes)
                came |= self._deliver(owned, offset, epoch, fetched)
            for (owned, _), fetched in zip(watched, fetched_sets[len(asked) :], strict=True):
                self._note_behind(owned, is_behind=bool(fetched.data))
                came |= bool(fetched.data)
        finally:
            for owned, _, _ in unanswered:
                owned.feed.cancel()
        return came

    def _note_behind(self, owned: FetchedPartition, *, is_behind: bool) -> None:
        if is_behind:
            self._behind.add(owned)
        else:
            self._behind.discard(owned)

    def _fetch_only(self, owned: FetchedPartition) -> bool:
        """Fetch from the only partition: more if the last set was large, as far as there is room for it.

        Each call has to wait until the application lets another thread run Python, which costs more than a fetch.
        """
        self.lacks_room = True
        first = owned.feed.reserve()
        if first is None:
            return False
        offset, epoch = first
        self.lacks_room = False
        is_behind, self._is_behind = self._is_behind, False
        most, together = sets_for(self._fetch_bytes) if is_behind else (1, 1)
        wait_s = 0.0 if is_behind else self._wait_s
        reserved = 1
        came = False
        began_s = time.monotonic()
        try:
            while reserved < most and owned.feed.reserve() is not None:
                reserved += 1
            together = min(together, reserved)
            fetched_sets = self._consumer.fetch_on(
                *(owned.where.topic, owned.where.partition, offset),
                *(together * self._fetch_bytes, reserved // together),
                wait_ms=_in_ms(wait_s),
                min_bytes=self._min_bytes,
            )
            self._outages.over()
            self._is_behind = 2 * len(fetched_sets[-1].data) >= self._fetch_bytes
            for fetched in fetched_sets:
                room = min(together, max(1, -(-len(fetched.data) // self._fetch_bytes)))
                reserved -= room
                came |= self._deliver(owned, fetched.offset, epoch, fetched, room)
        finally:
            for _ in range(reserved):
                owned.feed.cancel()
        return came or is_behind or _has_waited(began_s, wait_s)

    def _deliver(self, owned: FetchedPartition, offset: int, epoch: int, fetched: FetchedSet, room: int = 1) -> bool:
        if fetched.error is None:
            self._outages.over(owned.where)
        if fetched.data and not fetched.complete_bytes:
            try:
                fetched = self._whole_first(owned.where, fetched)
            except BaseException:
                owned.feed.cancel()
                raise
        if fetched.data:
            self._counts.add(fetched_bytes=len(fetched.data))
            owned.feed.deliver(epoch, offset, fetched.data, fetched.complete_bytes, room)
            return True
        owned.feed.cancel()
        if isinstance(fetched.error, OffsetOutOfRangeError):
            if owned.feed.consumed_offset != offset:
                # What was fetched before is all that is left of it: it must be consumed first, not dropped.
                owned.feed.postpone(self._backoff_s)
                return False
            self._counts.add(resets=1)
            logger.warning("%s: starting over where autooffset.reset says", fetched.error)
            self._find_start(owned, epoch)
        elif isinstance(fetched.error, NotAllowedError):
            self._refuse(owned, epoch, fetched.error)
        elif fetched.error is not None:
            self._report(fetched.error, owned.where)
            owned.feed.postpone(self._backoff_s)
        return False

    def _whole_first(self, where: TopicPartition, fetched: FetchedSet) -> FetchedSet:
        """Fetch the first message, which is larger than fetch.size, by itself; the same as before if that is no use."""
        header = read_header(fetched.data)
        if not isinstance(header, MessageHeader) or not len(fetched.data) < header.message_bytes <= MAX_MESSAGE_BYTES:
            return fetched  # the stream says what is wrong
        if where.topic not in self._warned_topics:
            self._warned_topics.add(where.topic)
            logger.warning(
                "the message in %s at offset %d has %d bytes, and fetch.size is %d: such messages are fetched one by"
                " one; set fetch.size to the size of the largest",
                where,
                fetched.offset,
                header.message_bytes,
                self._fetch_bytes,
            )
        return self._consumer.fetch(where.topic, where.partition, fetched.offset, header.message_bytes)

    def _find_starts(self, partitions: Iterable[FetchedPartition]) -> None:
        """Find the starts that are missing, up to the first request that the broker answers by hanging up.

        It does so for a partition that it does not have, or because it is away. The next round omits that partition.
        """
        missing = [owned for owned in partitions if owned.feed.fetch_offset is None and not owned.feed.is_postponed]
        while len(missing) > 1 and self._find_together(missing[:MAX_STARTS]):
            del missing[:MAX_STARTS]
        for owned in missing:
            if not self._find_start(owned, owned.feed.epoch):
                return

    def _find_together(self, partitions: list[FetchedPartition]) -> bool:
        """Find starts with few requests; False, and nothing done, if the broker refuses one of them."""
        epochs = [owned.feed.epoch for owned in partitions]
        asked = [(o.where.topic, o.where.partition, self._reset_time_of(o), 1) for o in partitions]
        try:
            answers = self._consumer.get_many_offsets_before(asked)
        except Exception:  # noqa: BLE001 (asked one by one, it shows for which partition)
            return False
        starts = zip(partitions, answers, epochs, strict=True)
        self._begin(partitions, {owned: (offsets[0], epoch) for owned, offsets, epoch in starts if offsets})
        return True

    def _find_start(self, owned: FetchedPartition, epoch: int) -> bool:
        """Ask the broker where a partition without a usable offset begins or ends; False if that broke the connection.

        A failure concerns only this partition, which is tried again later.
        """
        where, feed = owned.where, owned.feed
        try:
            offsets = self._consumer.get_offsets_before(where.topic, where.partition, self._reset_time_of(owned), 1)
        except NotAllowedError as error:
            self._refuse(owned, epoch, error)
            return True
        except KafkaError as error:
            self._report(error, where)
            feed.back_off(2 * self._backoff_s, LONGEST_PAUSE_S)
            return not isinstance(error, BrokerConnectionError)
        except Exception:
            logger.exception("the start of partition %s is not found", where)
            self._counts.add(fetch_errors=1)
            feed.postpone(self._backoff_s)
            return True
        self._begin([owned], {owned: (offsets[0], epoch)} if offsets else {})
        return True

    def _reset_time_of(self, owned: FetchedPartition) -> int:
        is_first = owned.feed.fetch_offset is None
        return self._newborn_time if owned.is_newborn and is_first else self._reset_time

    def _begin(self, partitions: Iterable[FetchedPartition], starts: Starts) -> None:
        """Hand on starts that were found; partitions that do not begin are tried again later."""
        errors: Mapping[FetchedPartition, KafkaError] = {}
        try:
            errors = self._starts_found(starts) if starts else {}
        except Exception:
            logger.exception("the starts of %d partitions are not written", len(starts))
            self._counts.add(fetch_errors=1)
        reported: set[int] = set()
        for owned in partitions:
            error = errors.get(owned)
            if error is None:
                self._outages.over(owned.where)
            elif id(error) not in reported:  # ZooKeeper's absence is told once
                reported.add(id(error))
                self._report(error, owned.where)
            if error is not None and not isinstance(error, ZkError):
                owned.feed.back_off(2 * self._backoff_s, LONGEST_PAUSE_S)
            elif error is not None or owned.feed.fetch_offset is None:
                owned.feed.postpone(self._backoff_s)


def _in_ms(wait_s: float) -> int:
    return max(0, math.ceil(wait_s * 1000))


def _has_waited(began_s: float, wait_s: float) -> bool:
    """Say whether a broker has waited before it answered, or has not understood that it should."""
    return wait_s > 0 and time.monotonic() - began_s >= wait_s / 2
