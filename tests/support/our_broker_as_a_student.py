"""Runs this project's own broker, member and producer as the lab starts a student's program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kafka2011.consumer.rebalance import assign
from kafka2011.consumer.topic_count import stream_ids
from kafka2011.message.message_set import encode
from zk.cluster import TopicPartition

_HOUR_MS = 3_600_000
_NEVER = 10**9


def run_broker(settings: dict[str, str]) -> None:
    """Become a broker without ZooKeeper."""
    by_count = "1" if "flush-ms" not in settings else str(_NEVER)
    properties = {
        "brokerid": "0",
        "enable.zookeeper": "false",
        "port": settings["port"],
        "log.dir": settings["data"],
        "num.partitions": settings.get("partitions", "1"),
        "log.file.size": settings.get("segment-bytes", "1000000000"),
        "log.flush.interval": settings.get("flush-messages", by_count),
        "log.default.flush.interval.ms": settings.get("flush-ms", str(_NEVER)),
        "log.default.flush.scheduler.interval.ms": "50",
    }
    Path(settings["data"]).mkdir(exist_ok=True)
    arguments = [f"--override={key}={value}" for key, value in properties.items()]
    os.execv(sys.executable, [sys.executable, "-m", "kafka2011", "broker", *arguments])


def run_assign() -> None:
    """Divide as consumers do."""
    brokers: dict[int, int] = {}
    streams: list[str] = []
    for line in sys.stdin:
        kind, name, number = line.split()
        if kind == "broker":
            brokers[int(name)] = int(number)
        else:
            streams += stream_ids(name, int(number))
    shares = assign(TopicPartition.all_of("views", brokers), streams)
    owners = {where.znode_name: stream for stream, share in shares.items() for where in share}
    sys.stdout.writelines(f"{name} {owners[name]}\n" for name in sorted(owners))


def run_encode() -> None:
    """Encode lines."""
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(encode(line.removesuffix(b"\n")))


def main() -> None:
    """Do what the role asks for."""
    role, *words = sys.argv[1:]
    settings = dict(word.split("=", 1) for word in words)
    if role == "broker":
        run_broker(settings)
    elif role == "assign":
        run_assign()
    elif role == "encode":
        run_encode()
    else:
        sys.exit(f"{role} is not adapted")


if __name__ == "__main__":
    main()
