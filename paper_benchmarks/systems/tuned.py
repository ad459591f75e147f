"""The settings that make each system quicker in long runs than it is as shipped: one table, for all systems.

`python -m paper_benchmarks sweep` measures every value that a row has tried, one setting at a time, and its chapter in
DETAILS.md marks the value that stands here. Lists of a row's `tried` begin with the value that ships.
"""

from __future__ import annotations

from typing import NamedTuple


class Setting(NamedTuple):
    """One setting of some `clients` of a system, or of its server for them: the value used, those tried, and why."""

    kind: str
    clients: tuple[str, ...]
    key: str
    value: object
    tried: tuple[object, ...]
    why: str
    of_server: bool = False


_OURS, _KAFKA, _STREAMS = "kafka2011", "kafka", "rabbitmq-streams"
_ASYNC = ("async", "async-confirmed")
_FLUSHED = ("sync", *_ASYNC)
_CONFLUENT = ("lists", "lists-0", "produce", "produce-0")
_JAVA = ("perf", "perf-0")
_RSTREAM = ("rstream", "rstream-lists")
_NEVER = 2**31 - 1
PRODUCE, CONSUME = "produce", "consume"

PRODUCERS = (
    Setting(
        _OURS,
        _FLUSHED,
        "log.flush.interval",
        _NEVER,
        (500, 5_000, _NEVER),
        "flushed by time alone: no append waits for the disk, as in Kafka 4, which ships so",
        of_server=True,
    ),
    Setting(
        _OURS,
        _FLUSHED,
        "log.default.flush.interval.ms",
        1000,
        (3000, 1000),
        "with the row above: what a crash of the machine can lose is a second old at most",
        of_server=True,
    ),
    Setting(_OURS, _ASYNC, "batch.size", 1000, (200, 500, 1000, 2000), "a request and its answer for more messages"),
    Setting(_OURS, _ASYNC, "queue.size", 50_000, (10_000, 50_000), "several of these batches are under way"),
    Setting(_KAFKA, _CONFLUENT, "linger.ms", 20, (5, 0, 20, 100), "fuller batches: fewer requests"),
    Setting(_KAFKA, _CONFLUENT, "batch.num.messages", 10_000, (10_000, 100_000), "as shipped: bytes are the limit"),
    Setting(_KAFKA, _CONFLUENT, "batch.size", 1_000_000, (1_000_000, 100_000), "as shipped: what a broker takes"),
    Setting(
        _KAFKA,
        _CONFLUENT,
        "queue.buffering.max.messages",
        1_000_000,
        (100_000, 1_000_000),
        "the caller is not stopped while batches are under way",
    ),
    Setting(_KAFKA, _JAVA, "batch.size", 262_144, (16_384, 65_536, 262_144, 1_000_000), "fewer, larger requests"),
    Setting(_KAFKA, _JAVA, "linger.ms", 20, (5, 0, 20, 100), "time for these batches to fill"),
    Setting(_KAFKA, _JAVA, "buffer.memory", 134_217_728, (33_554_432, 134_217_728), "room for more of these batches"),
    Setting(_STREAMS, ("raw",), "frame", 500, (50, 500), "messages of a publish frame: fewer frames"),
    Setting(
        _STREAMS,
        _RSTREAM,
        "default_batch_publishing_delay",
        0.05,
        (3, 0.5, 0.05),
        "seconds until what `send` has collected is published",
    ),
    Setting(
        _STREAMS,
        _RSTREAM,
        "default_context_switch_value",
        10_000,
        (1000, 10_000),
        "messages until the event loop may do something else",
    ),
)
CONSUMERS = (
    Setting(
        _OURS,
        ("batches", "stream", "columns"),
        "fetch.size",
        1_048_576,
        (1_048_576, 307_200, 4_194_304),
        "as shipped: larger fetches gain nothing",
    ),
    Setting(
        _KAFKA,
        ("consume", "poll"),
        "fetch.queue.backoff.ms",
        1,
        (1000, 1),
        "as shipped, a full queue stops fetches for a second",
    ),
    Setting(
        _KAFKA, ("consume", "poll"), "queued.min.messages", 1_000_000, (100_000, 1_000_000), "more is fetched before"
    ),
    Setting(_KAFKA, ("consume", "poll"), "fetch.min.bytes", 100_000, (1, 100_000), "no small answers"),
    Setting(
        _KAFKA,
        ("consume", "poll"),
        "max.partition.fetch.bytes",
        8_388_608,
        (1_048_576, 8_388_608),
        "fewer, larger fetches",
    ),
    Setting(_KAFKA, ("perf",), "fetch.min.bytes", 100_000, (1, 100_000), "no small answers"),
    Setting(_KAFKA, ("perf",), "max.poll.records", 5000, (500, 5000), "fewer calls of poll"),
    Setting(_STREAMS, ("raw",), "credits", 100, (10, 100), "chunks that may be under way"),
    Setting(_STREAMS, ("rstream",), "initial_credit", 100, (10, 100), "chunks that may be under way"),
)
SETTINGS = {PRODUCE: PRODUCERS, CONSUME: CONSUMERS}


def rows(kind: str, do: str, client: str) -> list[Setting]:
    """Return the settings of a client, and of its server for it."""
    return [each for each in SETTINGS[do] if each.kind == kind and client in each.clients]


def tuned(kind: str, do: str, client: str) -> tuple[dict[str, object], dict[str, object]]:
    """Return the tuned settings of a client and of its server; two empty ones where it is best as shipped."""
    found = [each for each in rows(kind, do, client) if each.value != each.tried[0]]
    of_client = {each.key: each.value for each in found if not each.of_server}
    return of_client, {each.key: each.value for each in found if each.of_server}
