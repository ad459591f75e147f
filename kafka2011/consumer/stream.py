"""MessageStream: the endless iterator that an application reads (paper, section 3: the consumer API).

What "consumed" means is decided here: a message is consumed when the application comes back for the next one. So at any
time at most one message of a stream, or one list of them, is *in hand*, and nothing that was merely fetched is counted.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from kafka2011.consumer.chunk_queue import ChunkQueue
from kafka2011.consumer.columns import column_decoder
from kafka2011.consumer.feed import Chunk, PartitionFeed, State, StoredSet, Stretch
from kafka2011.errors import KafkaError
from kafka2011.message.message_set import Message, decode, decode_shallow
from zk import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from kafka2011.consumer.columns import DecodeColumns
    from kafka2011.consumer.group_registries import Lease
    from zk.clock import Clock
    from zk.cluster import TopicPartition

BATCH_MESSAGES = 100
"""Messages decoded ahead: enough to make each one cheap, few enough to cost little memory."""
LOOK_INTERVAL_S = 0.1
"""How long messages are handed out after one check of the lease; also how soon a stream sees it is held again."""
BREATH_S = 0.001
"""A pause before each check, so that an application of greenlets that never pauses does not starve the lease."""


class _State(enum.Enum):
    """Why a stream that has gone as far as it can without waiting has stopped."""

    READY = "there are messages to hand out"
    EMPTY = "there is no chunk"
    UNSURE = "there is a chunk, but the session may have ended"
    CLOSED = "the end"


class MessageStream:
    """Delivers the messages of the partitions that one stream of a group owns: a blocking iterator.

    Iterate over a stream in one thread only; that thread also owns the message that is being processed. Iteration ends
    when consumer.timeout.ms passes without a message, and after `shutdown`. In the first case, and after an error, the
    stream can be iterated again. Raises InvalidMessageError at a corrupt message, which is fetched again when iteration
    goes on, and InvalidMessageSizeError when fetch.size is too small for a message. `ConsumerConnector.rewind` can skip
    either. `room_made` is called when a fetch that found no room would find some now; it must not wait.
    """

    def __init__(
        self,
        stream_id: str,
        *,
        max_chunks: int,
        timeout_ms: int,
        shallow: bool,
        clock: Clock,
        room_made: Callable[[], None] = lambda: None,
    ) -> None:
        self.stream_id = stream_id
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._shallow = shallow
        self._decode = decode_shallow if shallow else decode
        self._clock = clock
        self._now_s = clock.monotonic_s  # called for every message
        self._queue: ChunkQueue[Chunk] = ChunkQueue(max_chunks, room_made)
        self._lock: AbstractContextManager[object] = self._queue.lock
        # The chunk that is being handed out, what is decoded of it, and the error that comes after that.
        self._open: Chunk | None = None
        self._messages: Iterator[Message] | None = None  # None: to be decoded from the consumed offset on
        self._batch: pa.RecordBatch = None  # columns that are ready
        self._ready: deque[Message] = deque()
        self._error: KafkaError | None = None
        self._decoded_messages = 0
        self._asks = 0  # how often the application has asked
        self._askers = 0  # and how often it waits for an answer now
        self._is_waiting = False  # a thread may be in `_come_back`, without the lock
        self._breathe_at_s = 0.0
        forks.register(self)

    def __repr__(self) -> str:
        return f"<MessageStream {self.stream_id}>"

    def feed(self, where: TopicPartition, lease: Lease) -> PartitionFeed:
        """Return the feed that brings a partition's messages here, from when it has a start until it is released."""
        return PartitionFeed(where, self.stream_id, lease, self._queue, self._clock)

    def __iter__(self) -> Iterator[Message]:
        """Yield messages as they come. Nearly all pass without the lock: `_flow` says why that is safe."""
        while (message := self._take_message(self._timeout_s)) is not None:
            chunk = self._open
            yield message
            if chunk is not None:
                yield from self._flow(chunk)

    def __next__(self) -> Message:
        message = self._take_message(self._timeout_s)
        if message is None:
            raise StopIteration
        return message

    def batches(self, max_messages: int = 250) -> Iterator[list[Message]]:
        """Yield lists of up to `max_messages` messages of one partition each, as they arrive.

        For applications that read much: a list costs hardly more than a message, as long as it is short enough for the
        processor's caches. Waits for the first message as iteration does, and ends and raises as it does. A list is
        consumed when the application comes back for the next.
        """
        while True:
            self._breathe()
            messages = self._next_list(max_messages, self._timeout_s)
            if not messages:
                return
            yield messages

    def sets(self) -> Iterator[StoredSet]:
        """Yield what was fetched as it was stored: bytes of whole messages, compressed sets unopened.

        For applications that pass messages on: a set costs hardly more than a message. Waits and ends as iteration
        does, and a set is consumed when the application comes back for the next. Raises only where not one whole
        message stands. `counts()` has no messages for them.
        """
        while (stored := self._next_set()) is not None:
            yield stored

    def arrow(self, max_messages: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Yield Arrow's record batches of one partition each, of up to `max_messages` messages that have arrived.

        For applications that work on columns: no object is made for a message. The columns are the fields of Message.
        A compressed set comes whole, even where a batch becomes longer by it; if it does not open, nothing of it comes.
        A batch is consumed when the application comes back for the next. Waits, ends and raises as iteration does.
        Needs PyArrow: MissingExtraError.
        """
        while True:
            self._breathe()
            batch = self._next_batch(max_messages, self._timeout_s)
            if batch is None:
                return
            yield batch

    def poll(self, timeout_s: float = 0.0) -> Message | None:
        """Return the next message, waiting up to `timeout_s` seconds; None if none comes, and after `shutdown`.

        Counts and raises as iteration does.
        """
        return self._take_message(timeout_s)

    def poll_list(self, max_messages: int = 250, timeout_s: float = 0.0) -> list[Message]:
        """Return the next list as `batches` yields it, waiting up to `timeout_s` seconds; empty if none comes.

        An empty one comes after `shutdown`, too. Raises as iteration does.
        """
        return self._next_list(max_messages, timeout_s)

    def poll_arrow(self, max_messages: int = 10_000, timeout_s: float = 0.0) -> pa.RecordBatch | None:
        """Return the next record batch as `arrow` yields it, waiting up to `timeout_s` seconds; None if none comes.

        None also after `shutdown`. Raises as `arrow` does.
        """
        return self._next_batch(max_messages, timeout_s)

    def on_change(self, call: Callable[[], None]) -> None:
        """Have `call` called, from any thread, whenever there may be something to hand out, and at the end.

        It must not wait, nor use this stream.
        """
        with self._lock:
            self._queue.filled = call

    @property
    def is_closed(self) -> bool:
        """Whether nothing will be handed out any more."""
        return self._queue.is_closed

    @property
    def waits_for_session(self) -> bool:
        """Whether what there is may be handed out only once the session is known to be alive, of which nobody tells."""
        return self._open is not None

    @property
    def delivered_messages(self) -> int:
        """How many messages were handed out so far."""
        return self._decoded_messages - len(self._ready)

    @property
    def is_asked(self) -> bool:
        """Whether the application waits for a message now."""
        return self._askers > 0

    @property
    def progress(self) -> tuple[int, int]:
        """Something else whenever the application has asked for a message, or was handed one."""
        return self._asks, self.delivered_messages

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Count as asked for a message meanwhile, for whoever waits in another way; in the thread that reads."""
        self._asks += 1
        self._askers += 1
        try:
            yield
        finally:
            self._askers -= 1

    @property
    def unfinished_releases(self) -> int:
        """How many partitions were given up while the application had a message from them."""
        return self._queue.unfinished_releases

    def count_in_hand_as_done(self) -> None:
        """Count the message that this thread is processing as consumed."""
        with self._lock:
            if self._open is not None and self._open.reader is threading.current_thread():
                self._open.come_back()

    def close(self) -> None:
        """End the iteration, in whichever thread it runs."""
        with self._lock:
            self._queue.close()
            if self._open is not None:
                self._open.flows_until_s = 0.0

    def forget_after_fork(self) -> None:
        """In a forked child: hand out nothing, as nobody fetches there, and what was fetched is the parent's."""
        self._lock = _ParentsLock(self.stream_id)
        if self._open is not None:
            self._open.flows_until_s = 0.0

    def _take_message(self, timeout_s: float | None) -> Message | None:
        """Wait for a message and hand it out; None after the timeout and after the end."""
        message: Message | None = None
        try:
            with self._lock:
                chunk = self._come_back(timeout_s)
                if chunk is not None:
                    chunk.in_hand = message = self._ready.popleft()
                return message
        except KafkaError:
            raise
        except BaseException:  # such as KeyboardInterrupt: the application did not get what was on its way to it
            if message is not None:
                self._decoded_messages -= 1
            self._start_over()
            raise

    def _flow(self, chunk: Chunk) -> Iterator[Message]:
        """Yield what may follow the message in hand without another check of the lease.

        Only this thread touches `_ready`. Whoever stops the flow sets `flows_until_s` to 0 first and then looks at
        what is in hand, while this notes what is in hand first and then looks whether the flow was stopped: so one of
        the two always sees the other.
        """
        ready, now_s = self._ready, self._now_s
        try:
            while ready and now_s() < chunk.flows_until_s:
                message, in_hand = ready.popleft(), chunk.in_hand
                chunk.in_hand = message
                if not chunk.flows_until_s:
                    ready.appendleft(message)
                    chunk.in_hand = in_hand
                    return
                yield message
        except GeneratorExit:  # the application has left its loop, with the message in hand
            raise
        except BaseException:
            self._start_over()
            raise
        if ready and chunk.flows_until_s:
            time.sleep(BREATH_S)

    def _next_list(self, max_messages: int, timeout_s: float | None) -> list[Message]:
        """Wait for messages of one partition and hand them out; none after the timeout and after the end."""
        _check_size(max_messages)
        delivered_messages = self.delivered_messages
        try:
            with self._lock:
                chunk = self._come_back(timeout_s, ahead=max_messages)
                if chunk is None:
                    return []
                if chunk.feed.state is not State.ACTIVE:
                    max_messages = 1  # the rest of a compressed set, and not one message more
                messages = self._take_ready(max_messages)
                chunk.list_offset, chunk.in_hand = messages[0].offset, messages[-1]
                chunk.flows_until_s = 0.0  # taking a single message next comes back from the list first
                return messages
        except KafkaError:
            raise
        except BaseException:
            self._start_over()
            self._decoded_messages = delivered_messages
            raise

    def _take_ready(self, max_messages: int) -> list[Message]:
        """Take messages of the open chunk that are ready, and decode more where iteration has left few."""
        ready = self._ready
        if len(ready) > max_messages:
            return [ready.popleft() for _ in range(max_messages)]
        messages = list(ready)
        ready.clear()
        self._decode_into(messages, max_messages)
        return messages

    def _next_set(self) -> StoredSet | None:
        """Wait for a set and hand it out; None after the timeout and after the end."""
        self._breathe()
        try:
            with self._lock:
                chunk = self._come_back(self._timeout_s, look=self._has_set)
                if chunk is None:
                    return None
                offset = chunk.feed.consumed_offset
                assert offset is not None
                data = chunk.data[offset - chunk.offset : chunk.end_offset - chunk.offset]
                chunk.in_hand = stored = StoredSet(*chunk.feed.where, offset, chunk.end_offset, data, chunk)
                return stored
        except KafkaError:
            raise
        except BaseException:
            self._start_over()
            raise

    def _next_batch(self, max_messages: int, timeout_s: float | None) -> pa.RecordBatch | None:
        """Wait for a batch, and hand it out; None after the timeout and after the end."""
        _check_size(max_messages)
        decode_columns = column_decoder()

        def look(chunk: Chunk) -> bool:
            return self._has_batch(chunk, decode_columns, max_messages)

        delivered_messages = self.delivered_messages
        try:
            with self._lock:
                chunk = self._come_back(timeout_s, look=look)
                if chunk is None:
                    return None
                batch, self._batch = self._batch, None
                offset = chunk.feed.consumed_offset
                assert offset is not None
                chunk.in_hand = Stretch(offset, batch.column("next_offset")[-1].as_py())
                self._decoded_messages += batch.num_rows
                return batch
        except KafkaError:
            raise
        except BaseException:
            self._start_over()
            self._decoded_messages = delivered_messages
            raise

    def _breathe(self) -> None:
        if self._now_s() >= self._breathe_at_s:
            time.sleep(BREATH_S)
            self._breathe_at_s = self._now_s() + LOOK_INTERVAL_S

    def _come_back(
        self, timeout_s: float | None, *, look: Callable[[Chunk], bool] | None = None, ahead: int = BATCH_MESSAGES
    ) -> Chunk | None:
        """Count what is in hand as consumed, and wait until more is ready, which then belongs to this thread.

        That is up to `ahead` messages, and there may be more that were decoded earlier; or what `look`, which goes by
        the bytes, finds in an open chunk.
        """
        if self._is_waiting:
            raise KafkaError(f"{self.stream_id} is read by another thread: each needs a stream of its own")
        self._asks += 1
        self._askers += 1
        self._is_waiting = True
        try:
            if self._open is not None:
                self._open.come_back()
                if look is not None:
                    self._undecode(self._open)
            chunk = self._await_ready(timeout_s, look=look, ahead=ahead)
        finally:
            self._askers -= 1
            self._is_waiting = False
        if chunk is not None:
            chunk.reader = threading.current_thread()
        return chunk

    def _await_ready(
        self, timeout_s: float | None, *, look: Callable[[Chunk], bool] | None, ahead: int
    ) -> Chunk | None:
        """Wait until something may be handed out; None after the timeout and after the end."""
        deadline_s = None if timeout_s is None else self._now_s() + timeout_s
        while (state := self._advance(look=look, ahead=ahead)) in {_State.EMPTY, _State.UNSURE}:
            wait_s = LOOK_INTERVAL_S if state is _State.UNSURE else None
            if deadline_s is not None:
                remaining_s = deadline_s - self._now_s()
                if remaining_s <= 0:
                    return None
                wait_s = remaining_s if wait_s is None else min(wait_s, remaining_s)
            self._queue.changed.wait(wait_s)
        return self._open if state is _State.READY else None

    def _advance(self, *, look: Callable[[Chunk], bool] | None, ahead: int) -> _State:
        """Go on until messages are ready, or there is something to wait for. Raises the error found in their place."""
        while not self._queue.is_closed:
            chunk = self._open
            if chunk is None:
                if not self._open_next():
                    return _State.EMPTY
            elif not chunk.is_wanted:
                self._drop_open()
            elif chunk.error is not None:
                raise chunk.refused()
            elif not self._look(chunk):
                return _State.UNSURE
            elif self._decode_some(chunk, ahead) if look is None else look(chunk):
                return _State.READY
            else:
                chunk.feed.consumed_offset = chunk.end_offset
                self._drop_open()
        return _State.CLOSED

    def _look(self, chunk: Chunk) -> bool:
        """Say whether the session is certainly alive, and note for how long that lets messages flow."""
        now_s, until_s = self._now_s(), chunk.feed.lease.until_s
        if chunk.feed.state is State.ACTIVE:  # while a partition is being released, each message needs a check
            chunk.flows_until_s = min(until_s, now_s + LOOK_INTERVAL_S)
        return now_s < until_s

    def _open_next(self) -> bool:
        """Open the oldest chunk that waits, if one does."""
        chunk = self._queue.take()
        if chunk is None:
            return False
        self._open = chunk.feed.open_chunk = chunk
        self._messages = None
        return True

    def _decode_some(self, chunk: Chunk, ahead: int) -> bool:
        """Make up to `ahead` messages of the open chunk ready; False when it has no more.

        Raises the error that comes after them.
        """
        if not self._ready:
            self._decode_into(self._ready, ahead)
        if not self._ready and self._error is not None:
            # Fetched anew when the application goes on: that mends a network error.
            fault, self._error = self._error, None
            chunk.feed.restart(chunk.feed.consumed_offset)
            raise fault
        return bool(self._ready)

    def _has_set(self, chunk: Chunk) -> bool:
        """Say whether a part of the open chunk was not handed out. Raises the error that stands in its place."""
        if chunk.end_offset == chunk.offset:
            return self._decode_some(chunk, 1)  # which says what is wrong
        return chunk.feed.consumed_offset != chunk.end_offset

    def _has_batch(self, chunk: Chunk, decode_columns: DecodeColumns, max_messages: int) -> bool:
        """Make the next batch of the open chunk ready; False when it has no more. Raises the error in its place."""
        offset = chunk.feed.consumed_offset
        assert offset is not None
        position = offset - chunk.offset
        batches = decode_columns(
            chunk.data, *chunk.feed.where, chunk.offset, position=position, shallow=self._shallow, max_rows=max_messages
        )
        try:
            self._batch = next(batches, None)
        except KafkaError:
            chunk.feed.restart(offset)  # fetched anew when the application goes on, as it is for messages
            raise
        return self._batch is not None

    def _undecode(self, chunk: Chunk) -> None:
        """Go back to bytes: what the application has not consumed, a compressed set as a whole."""
        self._decoded_messages -= len(self._ready)
        self._ready.clear()
        self._messages = None
        self._error = None
        chunk.is_within_set = False

    def _decode_into(self, messages: deque[Message] | list[Message], most: int) -> None:
        """Add messages of the open chunk until there are so many, or as many good ones as it has."""
        before = len(messages)
        if before >= most or self._error is not None:
            return
        if self._messages is None:
            self._messages = self._decoded()
        try:
            messages.extend(islice(self._messages, most - before))  # keeps what came before an error
        except KafkaError as error:
            self._error = error
        finally:
            self._decoded_messages += len(messages) - before

    def _decoded(self) -> Iterator[Message]:
        """Return the messages of the open chunk from the consumed offset on."""
        chunk = self._open
        assert chunk is not None
        offset = chunk.feed.consumed_offset
        assert offset is not None
        data = chunk.data
        if offset > chunk.offset:  # then a part of a message at the end is none that would be too large for a fetch
            data = data[offset - chunk.offset : chunk.end_offset - chunk.offset]
        return self._decode(data, *chunk.feed.where, offset)

    def _drop_open(self) -> None:
        self._batch = None
        if self._open is not None:
            self._undecode(self._open)
            self._open.flows_until_s = 0.0
            self._open.feed.open_chunk = None
            self._open = None
            self._queue.changed.notify_all()  # another thread may wait for its release

    def _start_over(self) -> None:
        """Forget what was on its way to the application, and fetch it again."""
        with self._lock:
            if self._open is not None:
                feed = self._open.feed
                if feed.epoch == self._open.epoch and feed.state is State.ACTIVE:
                    feed.restart(feed.consumed_offset)
                self._drop_open()


def _check_size(max_messages: int) -> None:
    if max_messages < 1:
        raise ValueError(f"max_messages is {max_messages}: it must be at least 1")


class _ParentsLock:
    """What a forked child has in place of a stream's lock: it is never taken."""

    def __init__(self, stream_id: str) -> None:
        self._stream_id = stream_id

    def __enter__(self) -> None:
        raise KafkaError(f"{self._stream_id} belongs to the process that has forked this one: open a consumer here")

    def __exit__(self, *_: object) -> None:
        pass
