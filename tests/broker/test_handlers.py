"""What a broker does with each request, over real logs."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka2011.broker.requests import handlers
from kafka2011.broker.requests.handlers import Client, RefusedError, Reply, RequestHandlers
from kafka2011.broker.requests.message_check import MessageChecker
from kafka2011.log.log import LogFailedError
from kafka2011.log.log_limit import LogLimit
from kafka2011.log.log_manager import LogManager, TopicSettings
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.segment import LogSlice
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet, encode
from kafka2011.wire.protocol import (
    ANY_PARTITION,
    EARLIEST,
    LATEST,
    FetchRequest,
    FetchWait,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    RefusalRequest,
    Request,
)
from kafka2011.wire.refusal import Refusal, decode_answer
from tests.support.disks import DiskWith
from tests.support.files import count_open_files
from tests.support.replies import bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HELLO = encode(b"hello")  # 15 bytes
BAD = HELLO[:-1] + b"?"
HUGE = 2**31 - 1


class Broker:
    """Handlers over logs in a directory, where everything is flushed as it is appended."""

    def __init__(self, log_dir: Path, max_segment_bytes: int = 2**30, limit: LogLimit | None = None) -> None:
        self.fsyncs = 0
        self.fsync_error: OSError | None = None
        self.logs = LogManager(
            log_dir,
            TopicSettings(
                2, of=lambda _: LogSettings(max_segment_bytes=max_segment_bytes, flush_interval=1), limit=limit
            ),
            disk=DiskWith(fsync=self._fsync),
        )
        self.handlers = RequestHandlers(self.logs)
        self.pauses = 0
        self.client = Client(MessageChecker(1000, 10_000, self._pause))

    def _fsync(self, fd: int) -> None:
        self.fsyncs += 1
        if self.fsync_error is not None:
            raise self.fsync_error

    def _pause(self) -> None:
        self.pauses += 1

    def ask(self, request: Request) -> bytes | None:
        """Return the reply as it would go over the wire."""
        reply = self.handlers.handle(request, self.client)
        return None if reply is None else bytes_of(reply)

    def produce(self, data: bytes, topic: str = "t", partition: int = 0) -> None:
        assert self.ask(ProduceRequest(topic, partition, data)) is None

    def stored(self, topic: str = "t", partition: int = 0) -> bytes:
        reply = self.ask(FetchRequest(topic, partition, 0, HUGE))
        assert reply is not None
        return reply[6:]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Give handlers over new logs of two partitions a topic, and close them."""
    made = Broker(tmp_path)
    with made.logs:
        yield made


# Produce


def test_a_produced_set_is_stored_as_it_came(broker: Broker) -> None:
    """No reply; the same bytes come back, compressed ones still compressed; messages are counted inside them too."""
    compressed = bytes(MessageSet([b"a", b"b", b"c"], Codec.GZIP))
    broker.produce(HELLO)
    broker.produce(compressed)
    assert broker.stored() == HELLO + compressed
    assert broker.handlers.counts == {"produce": 2, "messages_in": 4, "fetch": 1}


class _Received:
    """What C found in a buffer: one set."""

    def sets(self, _run: object) -> bytes:
        return HELLO * 2


def test_whoever_confirms_for_replicas_is_told_of_every_append(broker: Broker) -> None:
    """By whichever way a set comes: what is left out would be confirmed before other replicas have it."""
    told: list[tuple[str, int, int]] = []
    broker.client.appended = lambda log, end: told.append((log.topic, log.partition, end))
    broker.produce(HELLO)
    broker.produce(HELLO + HELLO[:9])
    broker.handlers.produce_together(ProduceRequest("t", 0, HELLO), [HELLO] * 2, broker.client)
    broker.handlers.produce_together(ProduceRequest("t", 0, HELLO + HELLO[:9]), [HELLO], broker.client)
    broker.ask(MultiProduceRequest((ProduceRequest("t", 1, HELLO), ProduceRequest("u", 0, HELLO * 3))))
    assert broker.handlers.append_run(_Received(), ("t", 1, 0, 0, 0, 30, 2, 2), broker.client)  # type: ignore[arg-type]
    broker.produce(b"")
    ends = [("t", 0, end) for end in (15, 30, 75, 90, 105)]
    assert told == [*ends, ("t", 1, 15), ("u", 0, 45), ("t", 1, 45)]
    assert [len(broker.stored(*where)) for where in (("t", 0), ("u", 0), ("t", 1))] == [105, 45, 45]


def test_a_topic_that_has_no_room_is_refused_and_nothing_else_is(tmp_path: Path) -> None:
    """By whichever way its first set comes; each refusal counts once. A fetch finds nothing, as in any new topic."""
    broker = Broker(tmp_path, limit=LogLimit(3, "the limit"))
    with broker.logs:
        broker.produce(HELLO)
        with pytest.raises(RefusedError, match=r"topic u cannot have 2 partitions here: .* the limit"):
            broker.produce(HELLO, "u")
        with pytest.raises(RefusedError, match=r"topic u cannot have 2 partitions here: .* the limit"):
            broker.handlers.produce_together(ProduceRequest("u", 0, HELLO), [HELLO], broker.client)
        assert broker.logs.room.refused == 2
        assert broker.stored("u") == b""
        broker.produce(HELLO)
        broker.produce(HELLO, "t", 1)
        assert [broker.stored("t", partition) for partition in range(2)] == [HELLO * 2, HELLO]


def test_a_partial_message_at_the_end_is_left_out(broker: Broker) -> None:
    """The complete messages are stored; without a complete one the set is refused."""
    broker.produce(HELLO + HELLO[:9])
    assert broker.stored() == HELLO
    with pytest.raises(RefusedError, match="no complete message"):
        broker.ask(ProduceRequest("t", 0, HELLO[:9]))


def test_an_empty_set_makes_the_topic(broker: Broker) -> None:
    """It appends nothing, but from then on the topic is there."""
    broker.produce(b"", "new", 1)
    assert broker.logs.topics() == {"new": 2}
    assert broker.handlers.counts["messages_in"] == 0


def test_an_empty_set_begins_a_segment_behind_a_full_one(tmp_path: Path) -> None:
    """As 0.7.2 does, which looks whether one is full before it looks what there is to append."""
    broker = Broker(tmp_path, max_segment_bytes=20)
    with broker.logs:
        log = broker.logs.get_or_create("t", 0)
        broker.produce(HELLO)
        broker.produce(b"")
        assert list(log.segment_offsets) == [0]
        broker.produce(HELLO)
        broker.produce(b"")
        broker.produce(b"")
        assert list(log.segment_offsets) == [0, 30]


def test_the_broker_picks_a_partition_at_random(broker: Broker) -> None:
    """-1 spreads sets over all partitions that the topic has."""
    for _ in range(60):
        broker.produce(HELLO, partition=ANY_PARTITION)
    sizes = [len(broker.stored(partition=partition)) for partition in (0, 1)]
    assert sum(sizes) == 60 * len(HELLO)
    assert min(sizes) > 0


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (ProduceRequest("t", 0, HELLO + BAD), "t-0: CRC"),
        (ProduceRequest("t", 0, encode(b"x", Codec.GZIP)), "t-0: .*GZIP"),
        (ProduceRequest("t", 0, b"\0\0\0\6\1\3" + bytes(4)), "t-0: codec 3"),
        (ProduceRequest("t", 0, b"\0\0\0\6\2\0" + bytes(4)), "t-0: magic 2"),
        (ProduceRequest("t", 2, HELLO), "partition 2 of t"),
        (ProduceRequest("t", -2, HELLO), "partition -2 of t"),
        (ProduceRequest("../t", 0, HELLO), "../t"),
        (ProduceRequest("", ANY_PARTITION, HELLO), "topic ''"),
        (ProduceRequest("a b", 0, b""), "a b"),
        (ProduceRequest("\\xff", 0, HELLO), "is not a name"),
        (OffsetsRequest("t", 2, LATEST, 1), "partition 2 of t"),
        (OffsetsRequest("..", 0, LATEST, 1), "topic '..'"),
    ],
    ids=range(12),
)
def test_what_is_refused_is_refused_whole(broker: Broker, request_: Request, why: str, tmp_path: Path) -> None:
    """The connection is to be closed, with topic, partition and reason; nothing is stored.

    No log is made for a wrong topic or partition. As in 0.7.2, the first set makes it, even one that is refused.
    """
    with pytest.raises(RefusedError, match=why):
        broker.ask(request_)
    makes_log = isinstance(request_, ProduceRequest) and (request_.topic, request_.partition) == ("t", 0)
    assert [log.appended_end_offset for log in broker.logs.logs()] == [0] * makes_log
    assert os.listdir(tmp_path) == ["t-0"] * makes_log  # noqa: PTH208 (dot files count)


def test_a_wrong_topic_is_refused_before_the_set_is_looked_at(broker: Broker) -> None:
    """An oversized set for a partition that is not there closes the connection instead of being dropped."""
    with pytest.raises(RefusedError):
        broker.ask(ProduceRequest("t", 9, encode(bytes(1001))))
    assert broker.handlers.counts["dropped_sets"] == 0


def test_a_payload_over_the_limit_drops_its_set_and_no_more(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """As in 0.7.2 the connection goes on; ours says so in the log and counts."""
    with caplog.at_level(logging.WARNING):
        broker.produce(HELLO + encode(bytes(1001)), "views", 1)
    assert [log.appended_end_offset for log in broker.logs.logs()] == [0]
    assert broker.handlers.counts["dropped_sets"] == 1
    assert "views-1" in caplog.text
    assert "1001" in caplog.text
    broker.produce(encode(bytes(1000)))
    assert len(broker.stored()) == 1010


def test_a_client_of_07_gets_of_a_topic_that_it_may_not_consume_what_an_unknown_topic_has(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """An error would end its fetcher, which has topics that it may consume as well; the log names it once."""
    broker.produce(HELLO, "secret")
    broker.produce(HELLO, "open")
    broker.client.refused_topics, broker.client.name = frozenset({"secret"}), "web at h:1"

    def asked(topic: str) -> list[bytes | None]:
        fetch = FetchRequest(topic, 0, 0, 100)
        return [
            broker.ask(fetch),
            broker.ask(MultiFetchRequest((fetch, FetchRequest("open", 0, 0, 100)))),
            *(broker.ask(OffsetsRequest(topic, 0, time_ms, 5)) for time_ms in (LATEST, EARLIEST, 5)),
        ]

    with caplog.at_level(logging.WARNING):
        assert asked("secret") == asked("unknown")
    assert HELLO in (asked("secret")[1] or b"")
    assert caplog.text.count("web at h:1 may not consume topic 'secret'") == 1
    assert broker.handlers.counts["not_allowed_consume"] == 10
    assert broker.logs.topics() == {"secret": 2, "open": 2}


def test_a_client_of_this_package_is_told_that_it_may_not_consume(broker: Broker) -> None:
    """By a number that 0.7 does not have, in each part, and it may ask why."""
    broker.produce(HELLO, "open")
    broker.client.refused_topics = frozenset({"secret"})
    broker.client.name, broker.client.rules = "web at h:1", "/etc/allow.toml"
    now = FetchWait(0, 1)
    refused = b"\0\0\0\2\0\x1d"
    assert broker.ask(FetchRequest("secret", 0, 0, 100, now)) == refused
    assert broker.ask(OffsetsRequest("secret", 0, LATEST, 1, is_ours=True)) == refused
    parts = (FetchRequest("secret", 0, 0, 100), FetchRequest("open", 0, 0, 100))
    answer = broker.ask(MultiFetchRequest(parts, now)) or b""
    assert answer[6:12] == refused
    assert answer.endswith(HELLO)
    why = broker.ask(RefusalRequest("secret")) or b""
    assert decode_answer(why[6:], "it") == Refusal("web at h:1", "/etc/allow.toml")


def test_what_was_dropped_is_never_confirmed(broker: Broker) -> None:
    """A producer that asks for nothing in order to hear that all was handled must not hear so. Nobody else is told."""
    asks = MultiFetchRequest(())
    broker.produce(HELLO)
    assert broker.ask(asks) == b"\0\0\0\2\0\0"
    broker.produce(encode(bytes(1001)), "views", 1)
    broker.produce(HELLO)
    assert broker.stored() == HELLO * 2, "fetches are answered as ever"
    with pytest.raises(RefusedError, match=r"dropped for views-1: a payload of 1001 bytes"):
        broker.ask(asks)
    broker.client = Client(broker.client.checker)
    assert broker.ask(asks) == b"\0\0\0\2\0\0"


def test_a_multiproduce_is_handled_in_order_up_to_the_refused_part(broker: Broker) -> None:
    """Earlier parts stay, later ones are not handled; a dropped set stops nothing."""
    parts = [
        ProduceRequest("a", 0, HELLO),
        ProduceRequest("b", 0, encode(bytes(1001))),
        ProduceRequest("c", 0, HELLO * 2),
        ProduceRequest("d", 0, BAD),
        ProduceRequest("e", 0, HELLO),
    ]
    with pytest.raises(RefusedError, match="d-0"):
        broker.ask(MultiProduceRequest(tuple(parts)))
    assert [len(broker.stored(topic)) for topic in "abcde"] == [15, 0, 30, 0, 0]
    assert broker.ask(MultiProduceRequest(())) is None


ODD_SETS = [
    HELLO,
    encode(b""),
    encode(b"old", magic=0),
    bytes(MessageSet([b"a", b"b"], Codec.GZIP)),
    encode(b"x" * 1001),  # over max.message.size
    BAD,
    bytes(MessageSet([b"y" * 20_000], Codec.GZIP)),  # opens to more than is allowed
    bytes(MessageSet([b"one", b"", b"three"])),
    HELLO + HELLO[:9],  # ends within a message
    HELLO[9:],  # which, together with the one before it, is whole
    b"",
    b"\0\0",
]


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(ODD_SETS), min_size=2, max_size=8),
    st.sampled_from([0, 1, 7]),
    st.sampled_from([1, 29, 30, 31, 100, 2**30]),
)
@example([HELLO] * 5, 0, 29)
@example([HELLO, HELLO + HELLO[:9], HELLO[9:], HELLO], 0, 2**30)
def test_sets_handled_together_leave_what_they_leave_one_by_one(
    sets: list[bytes], partition: int, max_segment_bytes: int
) -> None:
    """The same segments and bytes, counts and refusals, and the same answer to a question for confirmation."""
    outcomes = []
    for together in (False, True):
        with TemporaryDirectory() as directory:
            broker = Broker(Path(directory), max_segment_bytes)
            with broker.logs:
                refusal = ""
                try:
                    if together:
                        first = ProduceRequest("t", partition, sets[0])
                        broker.handlers.produce_together(first, sets[1:], broker.client)
                    else:
                        for each in sets:
                            broker.produce(each, partition=partition)
                except RefusedError as error:
                    refusal = str(error)
                counts = dict(broker.handlers.counts)
                segments = {path.name: path.read_bytes() for path in Path(directory).glob("*/*.kafka")}
                outcomes.append((refusal, counts, segments, broker.client.dropped))
    assert outcomes[0] == outcomes[1]


def test_good_sets_handled_together_are_one_write(broker: Broker) -> None:
    """Which is why they are."""
    broker.produce(HELLO)
    fsyncs = broker.fsyncs
    broker.handlers.produce_together(ProduceRequest("t", 0, HELLO), [HELLO] * 9, broker.client)
    assert broker.stored() == HELLO * 11
    assert broker.handlers.counts == {"produce": 11, "messages_in": 11, "fetch": 1}
    assert broker.fsyncs == fsyncs + 1


def test_an_io_error_passes_through(broker: Broker) -> None:
    """The broker stops on it; it is no refusal of the client's."""
    broker.produce(HELLO)
    broker.fsync_error = OSError(5, "the disk is broken")
    with pytest.raises(LogFailedError, match="the disk is broken"):
        broker.ask(ProduceRequest("t", 0, HELLO))
    broker.fsync_error = None
    with pytest.raises(LogFailedError, match="takes no more"):
        broker.ask(ProduceRequest("t", 0, HELLO))
    assert broker.stored() == HELLO


# Fetch


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (FetchRequest("t", 0, 0, HUGE), "00000020 0000" + (HELLO * 2).hex()),
        (FetchRequest("t", 0, 15, 1000), "00000011 0000" + HELLO.hex()),
        (FetchRequest("t", 0, 0, 20), "00000016 0000" + (HELLO * 2)[:20].hex()),
        (FetchRequest("t", 0, 3, 4), "00000006 0000" + HELLO[3:7].hex()),  # in the middle of a message
        (FetchRequest("t", 0, 30, 1000), "00000002 0000"),
        (FetchRequest("t", 0, 0, 0), "00000002 0000"),
        (FetchRequest("t", 1, 0, 1000), "00000002 0000"),
        (FetchRequest("unknown", 0, 77, 1000), "00000002 0000"),
        (FetchRequest("t", 0, 31, 1000), "00000002 0001"),
        (FetchRequest("t", 0, -1, 1000), "00000002 0001"),
        (FetchRequest("t", 0, 2**63 - 1, 0), "00000002 0001"),
        (FetchRequest("t", 2, 0, 1000), "00000002 0003"),
        (FetchRequest("unknown", -1, 0, 1000), "00000002 0003"),
        (FetchRequest("a/b", 0, 0, 1000), "00000002 ffff"),
        (FetchRequest("", 0, 0, 1000), "00000002 ffff"),
        (FetchRequest("t", 0, 0, -1), "00000002 0004"),
        (FetchRequest("t", 0, 30, -1), "00000002 0004"),
        (FetchRequest("t", 0, 31, -1), "00000002 0001"),
        (FetchRequest("t", 0, -9, -1), "00000002 0001"),
        (FetchRequest("t", 77, 0, -1), "00000002 0003"),
        (FetchRequest("t", 1, 0, -1), "00000002 0000"),
        (FetchRequest("unknown", 0, 0, -1), "00000002 0000"),
        (FetchRequest("a/b", 0, 0, -1), "00000002 ffff"),
    ],
    ids=range(23),
)
def test_a_fetch_is_answered_byte_for_byte(broker: Broker, request_: FetchRequest, reply: str) -> None:
    """Bytes of the log, nothing at its end or for what is not there yet, or the number of an error."""
    broker.produce(HELLO * 2)
    golden = bytes.fromhex(reply)
    assert broker.ask(request_) == golden
    assert broker.handlers.counts["fetch"] == 1
    code = int.from_bytes(golden[4:6], "big", signed=True)
    assert broker.handlers.counts[f"fetch_error_{code}"] == (1 if code else 0)
    # The same as a part of a multifetch: the part carries the error, the whole none.
    whole = broker.ask(MultiFetchRequest((request_,)))
    assert whole == (len(golden) + 2).to_bytes(4, "big") + b"\0\0" + golden


def test_a_negative_number_of_offsets_is_refused(broker: Broker) -> None:
    """0.7.2 closes the connection too, unless nobody has written to the topic."""
    broker.produce(HELLO)
    for time_ms in (LATEST, EARLIEST, 5):
        with pytest.raises(RefusedError, match="-1 is no number"):
            broker.ask(OffsetsRequest("t", 0, time_ms, -1))
    assert broker.ask(OffsetsRequest("unknown", 0, LATEST, -1)) == broker.ask(OffsetsRequest("unknown", 0, LATEST, 1))


def test_a_multifetch_over_many_segments_holds_few_files_open(tmp_path: Path) -> None:
    """A reader that takes its time must not use up the files that others need."""
    broker = Broker(tmp_path, max_segment_bytes=1)
    with broker.logs:
        for _ in range(20):
            broker.produce(HELLO)
        before = count_open_files()
        fetch = MultiFetchRequest(tuple(FetchRequest("t", 0, index * len(HELLO), 1000) for index in range(20)))
        reply = broker.handlers.handle(fetch, broker.client)
        assert reply is not None
        assert count_open_files() <= before + 1
        reply.release()
        assert count_open_files() == before
        answer = broker.ask(fetch)
        assert answer is not None
        assert answer.count(HELLO) == 20


def test_a_multifetch_of_many_parts(broker: Broker) -> None:
    """Errors stay with their parts, in order; no parts at all are answered too."""
    broker.produce(HELLO)
    reply = broker.ask(
        MultiFetchRequest((FetchRequest("t", 0, 0, 100), FetchRequest("t", 5, 0, 100), FetchRequest("t", 0, 1, 2)))
    )
    assert reply == bytes.fromhex("00000025 0000 00000011 0000" + HELLO.hex() + "00000002 0003 00000004 0000 0000")
    assert broker.ask(MultiFetchRequest(())) == bytes.fromhex("00000002 0000")
    assert broker.handlers.counts == {"produce": 1, "messages_in": 1, "multifetch": 2, "fetch_error_3": 1}


def test_a_multifetch_of_bad_names_is_one_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It names the first part and says how many more have an error; a file that cannot be read does not hide there."""
    broker = Broker(tmp_path, max_segment_bytes=1)
    bad = tuple(FetchRequest(f"../{number}", 0, 7, 100) for number in range(1000))
    with broker.logs:
        broker.produce(HELLO)
        broker.produce(HELLO)
        (tmp_path / "t-0" / f"{0:020}.kafka").rename(tmp_path / "away")
        caplog.clear()
        with caplog.at_level(logging.INFO):
            reply = broker.ask(MultiFetchRequest((*bad, FetchRequest("t", 0, 0, 100), FetchRequest("t", 9, 0, 1))))
        said = {record.levelname: record.getMessage() for record in caplog.records}
        assert len(caplog.records) == 2
    assert reply is not None
    assert len(reply) == 6 + 1002 * 6
    assert broker.handlers.counts["fetch_error_-1"] == 1001
    assert broker.handlers.counts["fetch_error_3"] == 1
    assert said["INFO"].startswith("fetch of '../0'-0 at 7 answered with error -1: ")
    assert said["INFO"].endswith("(and 1000 more parts of this multifetch with an error)")
    assert said["WARNING"].startswith("fetch of 't'-0 at 0 answered with an empty set: ")
    assert "more parts" not in said["WARNING"]


def test_requests_of_many_parts_give_others_their_turn(broker: Broker) -> None:
    """One may have 32,767."""
    broker.ask(MultiFetchRequest((FetchRequest("t", 0, 0, 100),) * 1000))
    assert broker.pauses >= 1000
    broker.ask(MultiProduceRequest((ProduceRequest("t", 0, HELLO),) * 1000))
    assert broker.pauses >= 2000


def test_a_reply_never_exceeds_what_its_size_can_say(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of a multifetch share the largest size that four bytes can hold; later ones get less."""
    monkeypatch.setattr(handlers, "MAX_INT32", 60)
    broker.produce(HELLO * 4)
    single = broker.ask(FetchRequest("t", 0, 0, HUGE))
    assert single is not None
    assert len(single) == 60
    several = broker.ask(MultiFetchRequest((FetchRequest("t", 0, 0, 30), FetchRequest("t", 0, 0, 30))))
    assert several is not None
    assert len(several) == 60
    assert int.from_bytes(several[:4], "big") == 56


def test_replies_hold_files_until_they_are_released(broker: Broker) -> None:
    """A reply is pieces of files, not bytes; releasing it twice is once."""
    broker.produce(HELLO)
    reply = broker.handlers.handle(FetchRequest("t", 0, 0, 100), broker.client)
    assert isinstance(reply, Reply)
    piece = reply.parts[1]
    assert isinstance(piece, LogSlice)
    assert (piece.position, piece.size) == (0, 15)
    reply.release()
    reply.release()
    assert piece.fd == -1


def test_files_are_let_go_when_a_multifetch_breaks_off(tmp_path: Path) -> None:
    """A connection that is cut off between two parts keeps no segment open."""
    broker = Broker(tmp_path, max_segment_bytes=1)
    with broker.logs:
        for _ in range(3):
            broker.produce(HELLO)
        open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        broker.client.checker.pause = iter([None, None]).__next__
        fetches = tuple(FetchRequest("t", 0, offset, 100) for offset in (0, 15, 30))
        with pytest.raises(StopIteration):
            broker.ask(MultiFetchRequest(fetches))
        assert len(os.listdir("/proc/self/fd")) == open_before  # noqa: PTH208


@pytest.mark.parametrize(("wait", "told"), [(FetchWait(0, 0), "ffff"), (None, "0000")])
def test_a_segment_that_does_not_open_does_not_hold_up_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wait: FetchWait | None, told: str
) -> None:
    """The log names the file, and our client learns that this fetch failed; an error would end a consumer of 0.7.2."""
    broker = Broker(tmp_path, max_segment_bytes=1)
    with broker.logs:
        broker.produce(HELLO)
        broker.produce(HELLO)
        oldest = tmp_path / "t-0" / f"{0:020}.kafka"
        oldest.rename(oldest.with_suffix(".away"))
        with caplog.at_level(logging.WARNING):
            assert broker.ask(FetchRequest("t", 0, 0, 100, wait)) == bytes.fromhex(f"00000002 {told}")
        assert str(oldest) in caplog.text
        assert broker.handlers.counts["fetch_error_-1"] == 1
        reply = broker.ask(MultiFetchRequest((FetchRequest("t", 0, 0, 100), FetchRequest("t", 0, 15, 100)), wait))
        assert reply == bytes.fromhex(f"0000001d 0000 00000002 {told} 00000011 0000{HELLO.hex()}")


def test_what_a_client_sent_does_not_break_a_line_of_the_log(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """A topic may hold line feeds and be long; the log shows both without following."""
    with caplog.at_level(logging.INFO):
        broker.ask(FetchRequest("a\nb" * 10_000, 0, 0, 100))
    [record] = caplog.records
    assert "\n" not in record.getMessage()
    assert len(record.getMessage()) < 1500


# Offsets


@pytest.mark.parametrize(
    ("request_", "offsets"),
    [
        (OffsetsRequest("t", 0, LATEST, 1), [45]),
        (OffsetsRequest("t", 0, LATEST, 100), [45, 30, 15, 0]),
        (OffsetsRequest("t", 0, LATEST, 0), []),
        (OffsetsRequest("t", 0, EARLIEST, 100), [0]),
        (OffsetsRequest("t", 0, 1, 100), []),
        (OffsetsRequest("t", 0, 2**62, 100), [45, 30, 15, 0]),
        (OffsetsRequest("t", 1, LATEST, 1), [0]),
        (OffsetsRequest("t", 1, 2**62, 1), []),
        (OffsetsRequest("unknown", 0, EARLIEST, 1), [0]),
        (OffsetsRequest("unknown", 0, 1, 1), []),
    ],
    ids=range(10),
)
def test_offsets_are_answered(tmp_path: Path, request_: OffsetsRequest, offsets: list[int]) -> None:
    """Newest first; a topic that is not there has [0] to offer at both ends."""
    broker = Broker(tmp_path, max_segment_bytes=1)
    with broker.logs:
        for _ in range(3):
            broker.produce(HELLO)
        reply = broker.ask(request_)
    assert broker.handlers.counts["offsets"] == 1
    body = len(offsets).to_bytes(4, "big") + b"".join(offset.to_bytes(8, "big") for offset in offsets)
    assert reply == (len(body) + 2).to_bytes(4, "big") + b"\0\0" + body


def test_a_partition_that_was_deleted_lately_is_empty(broker: Broker) -> None:
    """An error would end consumers of 0.7.2; only a fetch of no bytes, which asks for partitions, gets one."""
    broker.logs.grow_topic("t", 3)
    broker.ask(ProduceRequest("t", 2, HELLO))
    broker.logs.delete_topic("t")
    assert broker.ask(FetchRequest("t", 2, 15, 1000)) == b"\0\0\0\2\0\0"
    assert broker.ask(OffsetsRequest("t", 2, LATEST, 1)) == broker.ask(OffsetsRequest("t", 1, LATEST, 1))
    assert broker.ask(FetchRequest("t", 2, 0, 0)) == b"\0\0\0\2\0\3"
    assert broker.ask(FetchRequest("t", 3, 0, 1000)) == b"\0\0\0\2\0\3"
