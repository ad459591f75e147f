"""A gateway that can suffer, and a producer of today that sends through it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from integration.chaos.records import identify
from integration.gateway.today import idempotent_producer, read_partition, told_offset
from kafka2011.errors import KafkaError
from kafka2011.local_cluster import LocalGateway
from zk.connecting import connect
from zk.gateways import GatewayRegistry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from integration.chaos.evidence import Evidence
    from zk.cluster import TopicPartition

FLUSH_S = 60.0
MOST_QUEUED = 10_000


class ChaosGateway(LocalGateway):
    """One gateway; today's clients reach it without a link."""

    def __init__(self, number: int, directory: Path, settings: Mapping[str, object]) -> None:
        self.name = f"gateway-{number}"
        super().__init__(directory / self.name, {key: str(value) for key, value in settings.items()})

    @property
    def address(self) -> str:
        """Where clients connect, as host:port, once it has been ready."""
        return f"{self.host}:{self.port}"


def bootstrap_servers_of(gateways: Iterable[ChaosGateway]) -> str:
    """Return where clients of today reach these gateways."""
    return ",".join(gateway.address for gateway in gateways)


def read_as_today(
    zk_connect: str, gateways: Sequence[ChaosGateway], topics: Sequence[str], evidence: Evidence
) -> Iterator[str]:
    """Read what gateways serve of these topics; yield what could not be read."""
    with connect(zk_connect, connection_timeout_ms=30_000) as client:
        lists = GatewayRegistry(client).lists(topics)
    for topic, known in lists.items():
        for number, where in enumerate(known.partitions if known is not None else ()):
            try:
                read = read_partition(bootstrap_servers_of(gateways), topic, number)
            except TimeoutError as error:
                yield str(error)
                continue
            found = [(offset, identify(value)) for offset, value in read]
            evidence.read_today[topic, number, where] = [(offset, each[0] if each else None) for offset, each in found]


class Acknowledged(NamedTuple):
    """What a producer of today was told of a record; -1 for an offset that is not known."""

    partition: int
    offset: int
    confirmed: bool = True
    resends: int = 1
    """A client does not say whether it sent a record again."""


class TodayProducer:
    """Sends as the `Producer` of 0.7 does, through gateways; a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = idempotent_producer(bootstrap_servers)
        self._acknowledged = 0

    def send(
        self, topic: str, payload: bytes, key: str | None = None, partition: TopicPartition | None = None
    ) -> Future[Acknowledged]:
        """Begin to send a record to the partition of its key. Raises KafkaError if too many are on their way."""
        assert partition is None
        future: Future[Acknowledged] = Future()

        def note(error: Any, message: Any) -> None:
            if error is not None:
                future.set_exception(KafkaError(str(error)))
                return
            self._acknowledged += 1
            future.set_result(Acknowledged(message.partition(), told_offset(message)))

        if len(self._producer) > MOST_QUEUED:
            raise KafkaError("too many records are on their way")
        self._producer.produce(topic, payload, key=key, on_delivery=note)
        self._producer.poll(0)
        return future

    def counts(self) -> dict[str, int]:
        """Return what was acknowledged."""
        return {"acknowledged": self._acknowledged}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.flush(FLUSH_S)
