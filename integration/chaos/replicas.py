"""Faults at random among the replicas of one broker id, and what must hold: `python -m integration.chaos.replicas`.

Producers send confirmed messages and a group reads all the while, as `replica_clients` says; faults come from a seed,
as `replica_faults` says. With gateways, a client of today sends through them too. In the end every confirmed message is
in the logs, what was read at an offset is still there, all replicas have the same bytes in the same segments, and no
partition had two owners.
"""

from __future__ import annotations

import argparse
import logging
import random
import secrets
import shutil
import sys
import time
from collections import Counter
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from integration.chaos.broker import SMALL_DISK_BYTES, clear
from integration.chaos.defects import announced, replica_defects
from integration.chaos.faults import now_s
from integration.chaos.going_back import Copies, ZooKeeperCopy
from integration.chaos.java_clients import JavaClients
from integration.chaos.records import Place, identify
from integration.chaos.remade_topic import RemadeTopic
from integration.chaos.remade_topic_reader import RemadeTopicReader
from integration.chaos.replica_clients import Members, Producers, producer_settings
from integration.chaos.replica_faults import GATEWAY_LINKS, GATEWAY_WEIGHTS, LASTS_S, LINKS, WEIGHTS, ReplicaFaults
from integration.chaos.replica_set import BROKER_ID, LAGS_MS, PARTITIONS, TOPIC, ReplicaSet
from integration.chaos.replica_today import TodayClient, find_wrong, read_back
from integration.chaos.replica_watch import ReplicaWatch
from integration.chaos.schedule import GATEWAYS, draw_schedule, swarm_of
from kafka2011.errors import InvalidMessageError
from kafka2011.message.message_set import decode
from kafka2011.message.topic import parse_log_directory_name
from tests.support.waiting import eventually
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from integration.chaos.gateway import ChaosGateway
    from integration.chaos.records import MessageId
    from integration.chaos.replica_set import ChaosReplica
    from integration.chaos.schedule import Fault

PRODUCERS = 2
PATIENCE_S = 60.0
SHORT_PATIENCE_S = 10.0
YEAR_OFF_S = 400 * 86_400.0
_SMALL_DISK_S = 600.0
"""For so long a small disk has room for what is sent; with a client of today it has to be twice as large."""
_COMPLAINT = "Traceback (most recent call last)"


@dataclass
class Account:
    """What was confirmed, read and suffered, and what is wrong."""

    confirmed: set[MessageId] = field(default_factory=set)
    read: dict[Place, MessageId | None] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    epochs: int = 0
    repeated: int = 0
    answers: int = 0
    acknowledged: int = 0
    read_today: int = 0
    read_by_java: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{len(self.confirmed)} confirmed, {len(self.read)} read, {self.repeated} stored again,"
            f" {self.epochs} epochs, {self.answers} ends told,"
            f" {self.acknowledged} acknowledged by gateways, {self.read_today} read by a client of today,"
            f" {self.read_by_java} by a Java consumer;"
            f" faults: {faults or 'none'};"
            f" {len(self.problems)} problems"
        )


def suffer(
    executor: ReplicaFaults,
    faults: Sequence[Fault],
    seconds: float,
    account: Account,
    watch: ReplicaWatch,
    say: Callable[[str], None],
) -> None:
    """Begin and end faults when their time has come, until so many seconds have passed or something is wrong."""
    started_s = now_s()
    for moment in executor.live_through(faults, started_s):
        account.problems += [
            f"{name} ended by itself: {said}" for name, said, was_ready in executor.revive() if was_ready
        ]
        passed_s = now_s() - started_s
        if passed_s >= seconds or account.problems or watch.problems or executor.belief.lacking:
            break
        if moment is None or moment.begun is None:
            continue
        fault, whom = moment.fault, ", ".join(moment.begun.whom)
        if moment.is_over:
            say(f"{passed_s:6.1f} s  over: {fault.kind} of {whom}")
            continue
        how = f" {fault.between} {fault.mode} {fault.ways}" if fault.kind == "link" else ""
        say(f"{passed_s:6.1f} s  {fault.kind}{how} of {whom} for {fault.lasts_s:.1f} s")
        account.faults[f"{fault.kind}{f' {fault.mode}' if fault.mode else ''}{executor.role_of(moment.begun)}"] += 1
    executor.end_all()
    account.problems += executor.belief.lacking


def stored(segments: Mapping[str, bytes]) -> Iterator[tuple[Place, MessageId | None]]:
    """Yield every message of a replica; no id for one whose bytes were never sent."""
    for name, data in segments.items():
        directory, _, file = name.rpartition("/")
        parsed = parse_log_directory_name(directory)
        assert parsed is not None
        where = TopicPartition(parsed[0], BROKER_ID, parsed[1])
        for message in decode(data, parsed[0], BROKER_ID, parsed[1], int(Path(file).stem)):
            known = identify(message.payload)
            yield Place(where, message.offset, message.index_in_set), known[0] if known else None


def settle(
    replicas: ReplicaSet, members: Members, remade_topic: RemadeTopic, account: Account
) -> dict[Place, MessageId | None]:
    """Compare what there is in the end with what was confirmed and read, and return it.

    If something is wrong already, wait less.
    """
    patience_s = SHORT_PATIENCE_S if account.problems else PATIENCE_S
    first, *others = replicas.all.values()

    def differing() -> list[str]:
        segments = first.segments()
        return [each.name for each in others if each.segments() != segments]

    try:
        eventually(lambda: not differing(), patience_s, what="the same bytes everywhere")
    except AssertionError:
        account.problems.append(f"other bytes than {first.name} have {', '.join(differing())}")
    everything: dict[Place, MessageId | None] = {}
    try:
        everything.update(stored(first.segments()))
    except InvalidMessageError as error:
        account.problems.append(f"{first.name} has damage that nobody has repaired: {error}")
    account.problems += remade_topic.problems(everything.values())
    found = {place: message for place, message in everything.items() if place.where.topic == TOPIC}
    messages = Counter(found.values())
    account.epochs = replicas.state().epoch
    account.repeated = sum(messages.values()) - len(messages)
    if None in messages:
        account.problems.append(f"{messages[None]} messages in the logs were never sent")
    lost = account.confirmed - messages.keys()
    if lost:
        account.problems.append(f"{len(lost)} confirmed messages are lost, among them {min(lost)}")

    def read_all() -> bool:
        account.read = {receipt.place: receipt.message for receipt in members.receipts()}
        return account.read.keys() >= found.keys() or bool(account.problems)

    try:
        eventually(read_all, patience_s, what="the group's end", sleep=lambda _: time.sleep(2))
    except AssertionError:
        missed = found.keys() - account.read.keys()
        account.problems.append(f"the group was not handed {len(missed)} messages, the first at {min(missed)}")
    apart = {each.place for each in members.receipts() if account.read.get(each.place, each.message) != each.message}
    if apart:
        account.problems.append(f"at {len(apart)} places two messages were read, the first at {min(apart)}")
    changed = [place for place, message in account.read.items() if found.get(place) != message]
    if changed:
        account.problems.append(
            f"{len(changed)} messages that were read are not there any more, the first at {min(changed)}"
        )
    return found


def settle_today(
    client: TodayClient,
    java: Sequence[JavaClients],
    replicas: ReplicaSet,
    found: Mapping[Place, MessageId | None],
    account: Account,
) -> None:
    """Compare what clients of today were told and read with what there is."""
    evidence = client.evidence(found, account.confirmed)
    for each in java:
        each.note_sent(evidence)
    account.problems += read_back(replicas, evidence)
    for each in java:
        account.problems += each.end_consumer(evidence)
    account.read_by_java = sum(line.what == b"got" for lines in evidence.endless.values() for line in lines)
    account.acknowledged, account.read_today = len(evidence.told), sum(map(len, evidence.read_today.values()))
    account.problems += find_wrong(evidence)
    lost = evidence.told.keys() - set(found.values())
    if lost:
        account.problems.append(f"{len(lost)} records that gateways acknowledged are lost, among them {min(lost)}")


def clocks_of(seed: int, count: int) -> list[float]:
    """Return by how many seconds the wall clock of each replica is off: most are right, others by more than a year."""
    draw = random.Random(f"clocks {seed}")
    return [draw.choice((0.0, 0.0, YEAR_OFF_S, -YEAR_OFF_S)) for _ in range(count)]


def run(
    directory: Path,
    count: int,
    seconds: float,
    seed: int,
    kinds: Mapping[str, float] = WEIGHTS,
    gateways: int = 0,
    jars: Path | None = None,
) -> Account:
    """Inject faults for `seconds`, and return the account. Notes and logs stay in the directory.

    With the jars of kafka-clients, a Java producer and a Java consumer work through the gateways all the time.
    """
    account = Account()
    faults = draw_schedule(seed, seconds, kinds, GATEWAY_LINKS if gateways else LINKS, LASTS_S)
    directory.mkdir(parents=True, exist_ok=True)
    small_bytes = int(SMALL_DISK_BYTES * max(1.0, seconds / _SMALL_DISK_S)) * (2 if gateways else 1)
    clocks_s, lag_ms = clocks_of(seed, count), LAGS_MS[seed % 2]
    with (
        (directory / "events").open("w", buffering=1) as events,
        ReplicaSet(directory / "processes", clocks_s, seed % count, small_bytes, lag_ms, gateways) as replicas,
        Members(replicas.zk_connect, directory / "processes") as members,
        Producers(replicas.zk_connect, PRODUCERS) as producers,
        RemadeTopic(producer_settings(replicas.zk_connect)) as remade_topic,
        ReplicaWatch(replicas.all.values()) as watch,
        ExitStack() as stack,
    ):
        today = [stack.enter_context(TodayClient(replicas.gateways, directory / "processes"))] if gateways else []
        readers = [stack.enter_context(RemadeTopicReader(replicas.gateways))] if gateways else []
        java: list[JavaClients] = []
        if jars is not None:
            made = JavaClients(replicas.gateways, TOPIC, PARTITIONS, directory / "processes", jars)
            java.append(stack.enter_context(made))
        senders: list[Producers | RemadeTopic | TodayClient | JavaClients] = [producers, remade_topic, *today, *java]
        copies = directory / "copies"
        copies.mkdir(exist_ok=True)
        zookeeper = ZooKeeperCopy(replicas.zookeeper, replicas.zookeeper_data, copies / "zookeeper")
        executor = ReplicaFaults(replicas, Copies(replicas, copies), zookeeper, remade_topic, watch, senders)
        suffer(executor, faults, seconds, account, watch, lambda text: _say(events.write, text))
        replicas.heal()
        try:
            replicas.await_all(SHORT_PATIENCE_S if account.problems or watch.problems else PATIENCE_S)
            for sender in senders:
                sender.stop()
        except AssertionError as error:
            account.problems.append(str(error))
        account.confirmed = producers.confirmed.copy()
        account.problems += watch.problems
        account.answers = watch.answers
        found = settle(replicas, members, remade_topic, account)
        for client in today:
            settle_today(client, java, replicas, found, account)
        for reader in readers:
            account.problems += reader.problems(remade_topic.confirmed)
        account.problems += members.end()
        account.problems += _complaints(replicas)
    return account


def _complaints(replicas: ReplicaSet) -> Iterator[str]:
    servers: list[ChaosReplica | ChaosGateway] = [*replicas.all.values(), *replicas.gateways]
    for server in servers:
        complaints = server.output_path.read_text(errors="replace").count(_COMPLAINT)
        if complaints:
            yield f"{server.name} logged {complaints} tracebacks"


def _say(write: Callable[[str], object], text: str) -> None:
    write(f"[{time.strftime('%H:%M:%S')}] {text}\n")


def main(arguments: list[str] | None = None) -> int:
    """Make one run; 1 when something did not hold."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.jars and not options.gateway:
        parser.error("--jars needs --gateway: Java clients work through gateways")
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it complains of a server that is away
    gateways, weights = (GATEWAYS, GATEWAY_WEIGHTS) if options.gateway else (0, WEIGHTS)
    kinds = {kind: weights[kind] for kind in options.faults.split(",")} if options.faults else dict(weights)
    if options.swarm:
        kinds = swarm_of(options.seed, kinds)
    directory = options.directory or Path("build/chaos") / f"replicas-{options.seed}"
    clear(directory)
    with announced(options.plant) if options.plant else nullcontext():
        account = run(
            directory.absolute(), options.replicas, options.minutes * 60, options.seed, kinds, gateways, options.jars
        )
    sys.stdout.write(f"seed {options.seed}, {options.replicas} replicas: {account}\n")
    for problem in account.problems:
        sys.stdout.write(f"  {problem}\n")
    if account.problems:
        sys.stdout.write(f"  all is in {directory}\n")
        return 1
    if not options.keep:
        shutil.rmtree(directory)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.chaos.replicas")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--replicas", type=int, choices=range(2, 8), default=3)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--faults", default="", help=f"these kinds alone, of: {','.join(GATEWAY_WEIGHTS)}")
    parser.add_argument("--swarm", action="store_true", help="leave out whole kinds of faults, which the seed chooses")
    parser.add_argument("--gateway", action="store_true", help="two gateways suffer too; a client of today produces")
    parser.add_argument("--jars", type=Path, help="those of kafka-clients: two Java clients work through the gateways")
    parser.add_argument("--plant", choices=list(replica_defects()), metavar="DEFECT", help="what all replicas do wrong")
    parser.add_argument("--directory", type=Path, help="where to keep everything (build/chaos/replicas-SEED)")
    parser.add_argument("--keep", action="store_true", help="keep it also when nothing is wrong")
    return parser


if __name__ == "__main__":
    sys.exit(main())
