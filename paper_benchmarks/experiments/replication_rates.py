"""What followers cost a producer, a leader and themselves: sends that are confirmed, and sends that are not."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011 import SimpleConsumer
from kafka2011.wire.protocol import LATEST
from paper_benchmarks.clients.job import Job
from paper_benchmarks.clients.measure import new_topic, points_of
from paper_benchmarks.measuring.accounting import await_landed
from paper_benchmarks.measuring.payloads import STORED_BYTES
from paper_benchmarks.measuring.samples import ratio
from paper_benchmarks.measuring.usage import process_cpu_s
from paper_benchmarks.measuring.worker import Worker
from paper_benchmarks.pages.tables import brackets, spread_of, table, text
from paper_benchmarks.systems.kafka2011 import ASYNCHRONOUS, KIND, own_broker
from paper_benchmarks.systems.replicas import await_that, replicas_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker

FOLLOWERS = (0, 1, 2)
UNCONFIRMED, CONFIRMED, WAITED = "async, unconfirmed", "async, confirmed", "one by one, each waited for"
_CLIENTS = {UNCONFIRMED: "async", CONFIRMED: "async-confirmed", WAITED: "waited"}
_LOOK_S = 0.05
"""Each look costs the leader as much as some hundred messages."""


class Line(NamedTuple):
    """A way to send, to a broker with so many followers."""

    sent: str
    followers: int

    def __str__(self) -> str:
        return f"{self.sent}, {self.followers} followers"


def measure_rates(bench: Bench, zk_connect: str) -> list[dict[str, Any]]:
    """Send in each way to brokers that all run at once, with none, one and two followers, in turn."""
    many, few = bench.sized(toy=2000, small=200_000, paper=1_000_000), bench.sized(toy=20, small=300, paper=2000)
    with ExitStack() as stack:
        systems: list[KafkaBroker] = []
        for followers in FOLLOWERS:
            chroot = f"{zk_connect}/rates-{followers}"
            system = own_broker(bench.data, zk_connect=chroot, properties=ASYNCHRONOUS, replicas=1 + followers)
            systems.append(stack.enter_context(system))
            if followers:
                with replicas_of(systems[-1]) as replicas:
                    replicas.await_in_sync(1 + followers)
        topics = {way: new_topic() for way in _CLIENTS}
        present = {Line(way, followers): 0 for way in _CLIENTS for followers in FOLLOWERS}

        def once(line: Line) -> dict[str, float]:
            messages = few if line.sent == WAITED else many
            found, present[line] = _send(systems[line.followers], line, topics[line.sent], messages, present[line])
            return found

        found = bench.in_turn(present, once, name="rates")
    return [
        {"sent": line.sent, "followers": line.followers, **{key: [each[key] for each in several] for key in several[0]}}
        for line, several in found.items()
    ]


def _send(system: KafkaBroker, line: Line, topic: str, messages: int, present: int) -> tuple[dict[str, float], int]:
    """Send so many more to a topic of `present` ones; return figures, and how many it has then.

    Processor time is counted until all can be read, and so is on the disks of all that are in sync.
    """
    assert system.broker is not None
    pids = [system.broker.process.pid, *(each.process.pid for each in system.followers)]
    job = Job(
        do="produce",
        client=_CLIENTS[line.sent],
        topic=topic,
        messages=messages,
        every=points_of(messages, 1),
        server=system.server(),
    )
    with Worker(KIND.driver, job.facts()) as client, SimpleConsumer(system.host, system.port) as consumer:
        total = present + messages + client.facts["warm_messages"]
        began_s = [process_cpu_s(pid) for pid in pids]
        client.go()
        result = client.result()
        await_that(
            lambda: consumer.get_offsets_before(topic, 0, LATEST, 1)[0] >= total * STORED_BYTES,
            f"{total} messages of {topic} readable",
            poll_s=_LOOK_S,
        )
        leader_s, *followers_s = [process_cpu_s(pid) - began for pid, began in zip(pids, began_s, strict=True)]
        await_landed(topic, total, lambda: system.count(topic))
    figures = {
        "rate": messages / result["wall_s"],
        "client_cpu_us": 1e6 * result["cpu_s"] / messages,
        "leader_cpu_us": 1e6 * leader_s / messages,
        "follower_cpu_us": 1e6 * sum(followers_s) / max(len(followers_s), 1) / messages,
    }
    return figures, total


# The report ----------------------------------------------------------------------------------------------------------

TEXT = """\
One producer sends messages of 200 bytes to a topic of one partition, to a broker without replicas and to brokers with
one and two followers, all of which run at once, and all on one disk. An unconfirmed send is the paper's; a confirmed
one is answered when the set is appended, or with followers when all have it on disk. CPU time is that of one process,
for a message, until the message can be read; of two followers it is the mean."""


def rows_of_rates(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the table."""
    none = {line["sent"]: line["rate"] for line in lines if not line["followers"]}
    columns = [
        ("sent", text("sent")),
        ("followers", text("followers")),
        ("messages/s", spread_of("rate", whole=True)),
        ("x none", lambda line: brackets(ratio(line["rate"], none[line["sent"]])) if line["followers"] else None),
        ("producer, CPU us", spread_of("client_cpu_us")),
        ("leader, CPU us", spread_of("leader_cpu_us")),
        ("a follower, CPU us", lambda line: spread_of("follower_cpu_us")(line) if line["followers"] else None),
    ]
    return table(lines, columns)
