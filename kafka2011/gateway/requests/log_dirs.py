"""DescribeLogDirs: each broker that a gateway serves is a directory, with the sizes of its partitions."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from gevent.pool import Pool

from kafka2011.errors import KafkaError
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.requests.metadata import may_see

if TYPE_CHECKING:
    from kafka2011.gateway.requests.context import Body, Caller, Gateway

logger = logging.getLogger(__name__)

ASKED_AT_ONCE = 8
"""How many brokers are asked at once. Each is asked for one partition after the other, twice."""


def describe_log_dirs(gateway: Gateway, caller: Caller, body: Body) -> Body:
    """Return the sizes of partitions, as the brokers tell where their logs begin and end."""
    asked = body["topics"]
    numbers = None if asked is None else {topic["topic"]: set(topic["partitions"]) for topic in asked}
    wanted: dict[int, dict[str, list[int]]] = {broker_id: {} for broker_id in gateway.served_brokers}
    for topic, known in sorted(gateway.catalogue.lists.items()):
        if not may_see(caller, topic) or (numbers is not None and topic not in numbers):
            continue
        for number, where in enumerate(known.partitions):
            if where.broker_id in wanted and (numbers is None or number in numbers[topic]):
                wanted[where.broker_id].setdefault(topic, []).append(number)
    results = Pool(ASKED_AT_ONCE).map(partial(_directory, gateway), sorted(wanted.items()))
    return {"results": results}


def _directory(gateway: Gateway, wanted: tuple[int, dict[str, list[int]]]) -> Body:
    broker_id, topics = wanted
    described = {"log_dir": f"broker-{broker_id}", "topics": []}
    try:
        topics_with_sizes = [
            {"name": topic, "partitions": [_partition(gateway, topic, number) for number in numbers]}
            for topic, numbers in topics.items()
        ]
    except (KafkaError, OSError) as error:
        logger.warning("the sizes of broker %d's logs are not known: %s", broker_id, error)
        return {**described, "error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    return {**described, "topics": topics_with_sizes}


def _partition(gateway: Gateway, topic: str, number: int) -> Body:
    found = gateway.partitions.find(topic, number)
    size = 0 if isinstance(found, ErrorCode) else found.log.latest() - found.log.earliest()
    return {"partition_index": number, "partition_size": max(size, 0)}
