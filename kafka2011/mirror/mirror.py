"""Mirror: keeps copying topics of one or more clusters into another, as a member of a group in each (paper, section 4).

A set is read, sent and, once the target has confirmed it, committed. So whatever dies, nothing is lost, and what was
sent and not committed comes twice.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kafka2011.errors import ConfigError, KafkaError
from kafka2011.mirror.forwarder import WINDOW_BYTES, Forwarder, MirrorError
from kafka2011.mirror.source import Source
from kafka2011.mirror.target import Target
from zk.closing import Closing
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafka2011.config import ConsumerConfig, ProducerConfig
    from kafka2011.consumer.topic_filter import TopicFilter
    from kafka2011.mirror.forwarder import Counting
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
"""Time between attempts to reach a source that was away at the start."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Describes a source: the forwarder's counts, their rates since the last report, and the lag.

    `lag_bytes` is None while its ZooKeeper is away; of `unknown_partitions` the lag is not known, as when their broker
    is.
    """

    zk_connect: str
    counts: Mapping[str, int]
    messages_per_s: float
    bytes_per_s: float
    lag_bytes: int | None
    unknown_partitions: int


class Mirror(Closing):
    """Copies the topics that a filter allows from each source to the target; a context manager.

    `sources` are settings made by `source_config`, `target` those of `target_config`. Several mirrors of one group
    share the work. `window_bytes` bounds what is sent and not confirmed, for all sources together. `counters`, by the
    sources' zk.connect, are told what was confirmed before it is committed. `on_topic` is called with a source's
    zk.connect and a topic before anything of that is forwarded, such as by `SchemaCopy`.

    Raises at the start: ConfigError for a loop, ZkError when the target's ZooKeeper or none of the sources' answers.

    Each source is read in `streams` streams. With `skip_refused`, a message that the target cannot accept is left out
    and counted instead of ending the mirror.
    """

    def __init__(
        self,
        sources: Sequence[ConsumerConfig],
        target: ProducerConfig,
        topic_filter: TopicFilter,
        *,
        streams: int = 1,
        skip_refused: bool = False,
        window_bytes: int = WINDOW_BYTES,
        counters: Mapping[str, Counting] | None = None,
        on_topic: Callable[[str, str], object] = lambda _source, _topic: None,
    ) -> None:
        if len({config.zk_connect for config in sources}) < len(sources):
            raise ConfigError("a source is named twice")
        self.stopping = threading.Event()
        self.error: Exception | None = None
        self._target = Target(target, stop=self.stopping)

        def new_forwarder(
            zk_connect: str,
            partitions: Callable[[str], Sequence[TopicPartition]],
            failed: Callable[[TopicPartition, Exception], object],
        ) -> Forwarder:
            return Forwarder(
                self._target,
                partitions,
                stop=self.stopping,
                failed=failed,
                window_bytes=window_bytes // len(sources),
                skip_refused=skip_refused,
                counter=(counters or {}).get(zk_connect),
            )

        self._sources = [
            Source(
                config,
                topic_filter,
                streams,
                self._target,
                new_forwarder,
                self._fail,
                partial(on_topic, config.zk_connect),
            )
            for config in sources
        ]
        self._opening: list[threading.Thread] = []
        self._last = {source.zk_connect: (time.monotonic(), 0, 0) for source in self._sources}
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        sources = ", ".join(source.zk_connect for source in self._sources)
        return f"<Mirror from {sources} to {self._target.zk_connect}>"

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait up to `timeout_s` seconds for the mirror's end; return False without it. Raises what ended it."""
        stopped = self.stopping.wait(timeout_s)
        if self.error is not None:
            raise self.error
        return stopped

    def report(self) -> list[SourceReport]:
        """Return the counts, rates and lag of each source."""
        return [self._report(source) for source in self._sources if source.is_open]

    @property
    def obstacle(self) -> str | None:
        """Return why the mirror does not copy all that it should; None if it does."""
        if self.error is not None:
            return f"stopping after a failure: {self.error}"
        away = [source.zk_connect for source in self._sources if not source.is_connected]
        if away:
            return f"no session in ZooKeeper at {' and '.join(away)}"
        halted = self.halted()
        return f"not copied any further: {', '.join(map(str, sorted(halted)))}" if halted else None

    def halted(self) -> dict[TopicPartition, str]:
        """Return the sources' partitions of which nothing more is copied, each with the error.

        A rebalance or a new start reads them again from what was committed.
        """
        return {where: why for source in self._sources for where, why in source.halted().items()}

    def check_all_copied(self) -> None:
        """Check that each partition was copied to the end. Raises MirrorError."""
        halted = self.halted()
        if halted:
            first = min(halted)
            raise MirrorError(f"{len(halted)} partitions were not copied to the end, such as {first}: {halted[first]}")

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the counts of each source, by its zk.connect, and of the target's producer."""
        counts = {source.zk_connect: {**source.counts(), "halted": len(source.halted())} for source in self._sources}
        return {**counts, self._target.zk_connect: self._target.counts()}

    def close(self) -> None:
        """Stop reading, wait a while for confirmations, commit, and leave the groups; may be called twice."""
        self.stopping.set()
        for opening in self._opening:
            opening.join()
        closing = [threading.Thread(target=source.close) for source in self._sources]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
        self._target.close()

    # Inside ------------------------------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        if self.error is None and not self.stopping.is_set():
            self.error = error
            logger.error("the mirror stops: %s", error)
        self.stopping.set()

    def _open(self) -> None:
        """Open every source that answers; the others are tried again, as long as there is one."""
        away: list[tuple[Source, ZkError]] = []
        for source in self._sources:
            try:
                source.open()
            except ZkError as error:
                away.append((source, error))
        if len(away) == len(self._sources):
            raise away[0][1]
        for source, why in away:
            logger.warning("%s does not answer, still trying: %s", source.zk_connect, why)
            thread = threading.Thread(target=self._open_later, args=(source,), daemon=True)
            self._opening.append(thread)
            thread.start()

    def _open_later(self, source: Source) -> None:
        pause_s = FIRST_PAUSE_S
        while not self.stopping.wait(pause_s):
            try:
                source.open()
            except ZkError as error:
                logger.info("%s still does not answer: %s", source.zk_connect, error)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except Exception as error:  # noqa: BLE001  # such as a loop: nobody else would hear of it
                self._fail(error)
            else:
                logger.info("%s answers now", source.zk_connect)
                return

    def _report(self, source: Source) -> SourceReport:
        counts = source.forwarder.counts.as_dict()
        now_s, messages, size_bytes = time.monotonic(), counts["messages"], counts["bytes"]
        before_s, before_messages, before_bytes = self._last[source.zk_connect]
        self._last[source.zk_connect] = (now_s, messages, size_bytes)
        seconds = max(now_s - before_s, 1e-3)
        lag_bytes: int | None
        try:
            lag_bytes, unknown = source.lag_bytes()
        except KafkaError as error:
            logger.warning("the lag of %s is not known: %s", source.zk_connect, error)
            lag_bytes, unknown = None, 0
        return SourceReport(
            source.zk_connect,
            counts,
            (messages - before_messages) / seconds,
            (size_bytes - before_bytes) / seconds,
            lag_bytes,
            unknown,
        )
