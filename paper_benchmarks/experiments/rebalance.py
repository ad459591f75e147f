"""How long a group needs until every partition has an owner again after a member joined, left or was killed."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kafka2011 import SyncProducer
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.experiment import Experiment, Size
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import new_topic
from paper_benchmarks.pictures import image, picture
from paper_benchmarks.systems.kafka import own_broker
from paper_benchmarks.worker import Worker
from zk.connecting import connect
from zk.consumers import ConsumerRegistry
from zk.local import LocalZooKeeper
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from zk.client import ZkClient

EVENTS = ("joins", "is killed", "leaves")
_DRIVER = "paper_benchmarks.drivers.members"
_MEMBERS_A_PROCESS = 5
_SESSION_TIMEOUT_MS = 6000
_TIMEOUT_S = 120.0
_POLL_S = 0.02


def measure(bench: Bench) -> dict[str, Any]:
    """Measure groups of several sizes, and one of five with several numbers of partitions."""
    shapes = {
        Size.TOY: ((2, 10),),
        Size.SMALL: ((1, 100), (2, 100), (5, 10), (5, 100), (5, 500), (10, 100), (20, 100)),
        Size.PAPER: tuple((members, partitions) for members in (1, 2, 5, 10, 20) for partitions in (10, 100, 500)),
    }[bench.size]
    found: list[dict[str, Any]] = []
    with LocalZooKeeper() as zookeeper:
        for number, (members, partitions) in enumerate(shapes):
            bench.say(f"{members} members, {partitions} partitions")
            chroot = f"{zookeeper.connect_string}/{number}"
            with own_broker(bench.data, zk_connect=chroot, properties={"num.partitions": partitions}) as system:
                topic = new_topic()
                with SyncProducer(system.host, system.port) as producer:
                    producer.send(topic, b"one", 0)
                found += _shape(chroot, topic, members, partitions)
    return {"samples": found, "session_timeout_ms": _SESSION_TIMEOUT_MS}


def _shape(zk_connect: str, topic: str, members: int, partitions: int) -> Iterator[dict[str, Any]]:
    group = secrets.token_hex(4)
    job = {"zk_connect": zk_connect, "group": group, "topic": topic}
    with ExitStack() as stack:
        client = stack.enter_context(connect(zk_connect, _SESSION_TIMEOUT_MS, _SESSION_TIMEOUT_MS))
        watch = GroupWatch(client, group, topic, partitions)
        for start in range(0, members, _MEMBERS_A_PROCESS):
            several = min(_MEMBERS_A_PROCESS, members - start)
            stack.enter_context(Worker(_DRIVER, {**job, "do": "stay", "members": several})).go()
        watch.settled_s(members)

        def sample(event: str, began_s: float, expected: int) -> dict[str, Any]:
            settled_s = watch.settled_s(expected) - began_s
            return {"members": members, "partitions": partitions, "event": event, "settled_s": settled_s}

        with Worker(_DRIVER, {**job, "do": "join"}) as other:
            began_s = time.monotonic()
            other.go()
            yield sample("joins", began_s, members + 1)
            began_s = time.monotonic()
        yield sample("is killed", began_s, members)
        with Worker(_DRIVER, {**job, "do": "leave", "members": 1}) as other:
            watch.settled_s(members + 1)
            began_s = time.monotonic()
            other.go()
            yield sample("leaves", began_s, members)


class GroupWatch:
    """Looks at the registries of a group until they say that it has settled."""

    def __init__(self, client: ZkClient, group: str, topic: str, partitions: int) -> None:
        self._consumers = ConsumerRegistry(client)
        self._owners = OwnerRegistry(client)
        self._group = group
        self._topic = topic
        self._partitions = partitions

    def settled_s(self, members: int) -> float:
        """Wait until so many members share all partitions, and return when that was seen."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while True:
            ids = self._consumers.members(self._group)
            owners = [each.stream_id for each in self._owners.owners(self._group, self._topic).values()]
            now_s = time.monotonic()
            if len(ids) == members and is_settled(ids, owners, self._partitions):
                return now_s
            if now_s > deadline_s:
                raise BenchmarkError(
                    f"group {self._group} has {len(ids)} members and {len(owners)} owners of {self._partitions}"
                    f" partitions of {self._topic} after {_TIMEOUT_S:g} s: it should settle at {members} members"
                )
            time.sleep(_POLL_S)


def is_settled(members: Collection[str], owners: Iterable[str], partitions: int) -> bool:
    """Say whether all partitions are shared evenly among members of one stream each, given the owner of every one."""
    owned = Counter(stream_id.rpartition("-")[0] for stream_id in owners)
    share, rest = divmod(partitions, len(members))
    expected = sorted([share + 1] * rest + [share] * (len(members) - rest))
    return set(owned) <= set(members) and sorted(owned[member] for member in members) == expected


# The report ----------------------------------------------------------------------------------------------------------

HOW_TO_READ = """\
How to read it: the time until the registries show that every partition has exactly one owner, all of them members, with
even shares. A member that is killed is a member until its session ends (6 s as shipped), which no group can be quicker
than. The members of a group share this machine's cores: with many of them, that is part of the time."""


def settled_s(body: Mapping[str, Any], members: int, partitions: int, event: str) -> float | None:
    """Return how long a group of that shape took after an event; None where that was not measured."""
    for sample in body["samples"]:
        if (sample["members"], sample["partitions"], sample["event"]) == (members, partitions, event):
            return float(sample["settled_s"])
    return None


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw the times by shape of the group, and put them into a table."""
    shapes = sorted({(sample["members"], sample["partitions"]) for sample in body["samples"]})
    times = {shape: [settled_s(body, *shape, event) for event in EVENTS] for shape in shapes}
    with picture(pictures / "rebalance.svg", width=8, height=3.6) as axes:
        for number, event in enumerate(EVENTS):
            places = [at + 0.27 * (number - 1) for at in range(len(shapes))]
            axes.bar(places, [times[shape][number] or 0 for shape in shapes], 0.25, label=f"one {event}")
        axes.set_xticks(range(len(shapes)), [f"{members}\n{partitions}" for members, partitions in shapes])
        axes.set_xlabel("members before or after; partitions")
        axes.set_ylabel("settled after s")
        axes.grid(visible=False, axis="x")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    rows = [(*shape, *map(significant, times[shape])) for shape in shapes]
    columns = ("members", "partitions", *(f"settled s after one {event}" for event in EVENTS))
    return "\n\n".join([HOW_TO_READ, image(pictures / "rebalance.svg", "Rebalance"), table(columns, rows)])


REBALANCE = Experiment("rebalance", "Rebalance", measure, chapter)
