"""Texts that others wrote: znodes, options, and files that are read back."""

from __future__ import annotations

import json
import logging
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.broker.security.access import rules_of
from kafka2011.broker.security.rules_file import RulesFile
from kafka2011.collect.access_log import page_view
from kafka2011.collect.counts import CollectCounts
from kafka2011.collect.positions import FILE_NAME, JOURNAL_NAME, CollectStateError, Positions
from kafka2011.collect.spool import MIN_SPOOL_BYTES, Spool, SpoolSettings
from kafka2011.consumer.topic_count import MalformedSubscriptionError, TopicCount
from kafka2011.errors import ConfigError, KafkaError, LogError
from kafka2011.log.partition_counts import PartitionCounts
from kafka2011.spark.offset_ranges import from_json, to_json
from kafka2011.spark.options import BatchOptions, StreamOptions, WriteOptions
from tests.fuzz.driver import Target, in_memory
from tests.fuzz.messages import with_right_checksums
from tests.support.disks import DiskWith
from zk.clock import SYSTEM_CLOCK
from zk.cluster import MAX_INT32, Broker, TlsListener, TopicPartition, broker_id_from, decimal_from, text_from
from zk.errors import MalformedNode
from zk.nodes import Node
from zk.requests import placed_request
from zk.security import Security

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from tests.fuzz.driver import Run

_PATH = "/a/znode"
_OPTIONS = (BatchOptions, StreamOptions, WriteOptions)


def _no_fsync(_fd: int) -> None:
    """Bring nothing to disk: it is read back at once."""


def _partition(data: bytes) -> Hashable:
    name = text_from(_PATH, data)
    assert TopicPartition.from_znode_name("t", name).znode_name == name
    return "partition"


def _broker(data: bytes) -> Hashable:
    found = Broker.from_node(_PATH, 1, data)
    assert found.text.partition(":")[0] == data.decode().partition(":")[0]
    assert Broker.from_node(_PATH, 1, found.text.encode()) == found
    return "broker"


def _listener(data: bytes) -> Hashable:
    found = TlsListener.from_node(_PATH, data)
    assert TlsListener.from_node(_PATH, found.text.encode()) == found
    return "listener"


def _subscription(data: bytes) -> Hashable:
    found = TopicCount.parse(text_from(_PATH, data))
    if found.topic_filter is not None:
        assert TopicCount.parse(found.text) == found
        found.topics(["a", "topic"])
        return "filter", type(found.topic_filter).__name__
    assert all(found.streams_of(topic) > 0 for topic in found.topics([]))
    return "subscription", min(len(found.streams_by_topic), 2)


def _request(data: bytes) -> Hashable:
    node = Node(_PATH, data, 3, 0)
    placed = placed_request(node)
    if placed.request is not None:
        assert placed.request.text == data.decode()
    return "request", placed.request is None


def _decimal(data: bytes) -> Hashable:
    assert str(decimal_from(_PATH, data, MAX_INT32, "a number")).encode() == data
    assert broker_id_from(_PATH, data.decode()) >= 0
    return "decimal"


def _offsets(data: bytes) -> Hashable:
    try:
        found = from_json(data.decode(errors="surrogateescape"), -2)
    except ValueError as error:
        raise MalformedNode(_PATH, data, str(error)) from error
    assert from_json(to_json(found), -2) == found
    return "offsets", min(len(found), 2)


_ZNODES: tuple[Callable[[bytes], Hashable], ...] = (
    *(_partition, _broker, _listener, _subscription, _request, _decimal, _offsets),
)


@contextmanager
def open_znodes() -> Iterator[Run]:
    """Check that a znode's text is read, and written again as it was, or refused; the first byte says which kind."""

    def run(data: bytes) -> Hashable:
        return _ZNODES[data[0] % len(_ZNODES) if data else 0](data[1:])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of regular expressions that may mean something else one day
        yield run


@contextmanager
def open_options() -> Iterator[Run]:
    """Check that options, one a line, are taken or refused by name; the first byte says whose they are."""
    logging.disable(logging.CRITICAL)

    def run(data: bytes) -> Hashable:
        kind = _OPTIONS[data[0] % len(_OPTIONS) if data else 0]
        lines = data[1:].decode(errors="surrogateescape").split("\n")
        given = dict(line.split("=", 1) for line in lines if "=" in line)
        options = kind.from_options(given)
        if not isinstance(options, WriteOptions):
            options.wants("topic")
        return kind.__name__, len(given)

    try:
        yield run
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def open_positions() -> Iterator[Run]:
    """Check that a collector's files, the journal behind a NUL, are read and written again as they were, or refused."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory()) as name:
        directory = Path(name)
        disk = DiskWith(fsync=_no_fsync)

        def run(data: bytes) -> Hashable:
            text, _, journal = data.partition(b"\0")
            (directory / FILE_NAME).write_bytes(text)
            (directory / JOURNAL_NAME).unlink(missing_ok=True)
            if journal:
                (directory / JOURNAL_NAME).write_bytes(journal)
            first = Positions(directory, "t", disk)
            try:
                first.save(whole=True)
            finally:
                first.close()
            second = Positions(directory, "t", disk)
            second.close()
            assert (second.files, second.spool_offset) == (first.files, first.spool_offset)
            assert (second.id, second.instances) == (first.id, first.instances)
            return min(len(first.files), 3), bool(journal)

        yield run


@contextmanager
def open_spool() -> Iterator[Run]:
    """Check that a spool's file is recovered and read to its end, and that more lines can be added."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory()) as name:
        directory = Path(name)
        segment = directory / f"{0:020}.kafka"

        def run(data: bytes) -> Hashable:
            for path in directory.iterdir():
                path.unlink()
            how = data[0] if data else 0
            places, offset = bool(how & 0x80), len(data) // 5 if how & 0x40 else 0
            segment.write_bytes(with_right_checksums(data[1:]) if len(data) & 1 else data[1:])
            spool = Spool(
                SpoolSettings(directory, "t", MIN_SPOOL_BYTES, places=places), offset, CollectCounts(), SYSTEM_CLOCK
            )
            lines = 0
            try:
                while (found := spool.read()) is not None:
                    lines += len(found[0])
                assert spool.is_read
                spool.append([b"one more"])
                more = spool.read()
                assert more is not None
                assert more[0] == [b"one more"]
            finally:
                spool.close()
            return min(lines, 3), places

        try:
            yield run
        finally:
            logging.disable(logging.NOTSET)


@contextmanager
def open_files() -> Iterator[Run]:
    """Check that files of rules, of security, and of grown topics are taken or refused; the first byte says which."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory()) as name:
        directory = Path(name)
        path = directory / ".kafka2011_partitions"

        def run(data: bytes) -> Hashable:
            kind, text = data[0] % 3 if data else 0, data[1:]
            path.write_bytes(text)
            if kind == 0:
                rules = RulesFile("allow.file", path, ("produce", "consume"), rules_of, SYSTEM_CLOCK).rules
                return "rules", sum(map(len, rules.values())) > 0
            if kind == 1:
                return "security", Security.read(path).user != ""
            counts = PartitionCounts(directory, 1)
            counts.load([("t", 0)])
            assert counts.of("t") >= 1
            return "partitions"

        try:
            yield run
        finally:
            logging.disable(logging.NOTSET)


@contextmanager
def open_lines() -> Iterator[Run]:
    """Check that a line of an access log becomes an event, whatever stands in it."""

    def run(data: bytes) -> Hashable:
        event = page_view(data)
        json.dumps(event)
        assert event.get("time", 0) < 2**63
        return tuple(sorted(event))

    yield run


_WORDS = (
    b"null",
    b"true",
    b"1e999",
    b"-1",
    b"NaN",
    b"Infinity",
    b'"',
    b"{",
    b"[" * 500,
    b"]",
    b"}",
    b":",
    b",",
    b"\\u0000",
)
_REGEX = (b"(" * 300, b"a{99999999999}", b"(?i", b"[[", b"\\", b")*", b"(?P<a>")

TARGETS = (
    Target("znodes", 110_000, open_znodes, (MalformedNode, MalformedSubscriptionError), (*_WORDS, *_REGEX)),
    Target("options", 30_000, open_options, (ConfigError,), (*_WORDS, *_REGEX, b"\n", b"=")),
    Target("positions", 8_000, open_positions, (CollectStateError,), _WORDS),
    Target("spool", 4_000, open_spool, (LogError,)),
    Target("rules", 20_000, open_files, (KafkaError,), (*_WORDS, *_REGEX, b"=", b"\n", b"[[a]]")),
    Target("lines", 40_000, open_lines, (), (b"[", b"]", b"\\", b'"', b" ", b"-", b"/Jan/", b"0000", b"+9999")),
)
