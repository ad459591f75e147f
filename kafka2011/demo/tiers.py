"""The tiers around the demo's live cluster (figure 3 of the paper), each a process of its own.

frontends -> live cluster -> mirror -> offline cluster -> load -> reports
             |                         |
             online readers            audit of all of them
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka2011.admin.admin import Admin
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.audit.windows import DEFAULT_WINDOW_MS
from kafka2011.demo.patience import Patience, how_busy
from kafka2011.errors import KafkaError
from kafka2011.local_cluster import LocalCluster
from zk.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka2011.admin import GroupPartition
    from kafka2011.demo.arrivals import Arrivals, Latency
    from kafka2011.demo.frontends import Frontends
    from zk.cluster import TopicPartition

ONLINE, MIRROR, WAREHOUSE, OFFLINE = "online", "mirror", "warehouse", "offline"
LOAD_INTERVAL_S = 2
_SESSION = "zk.sessiontimeout.ms=2000"
_COMMITS = "autocommit.interval.ms=500"
_STOP_TIMEOUT_S = 240.0
_COMMAND_TIMEOUT_S = 900.0
"""For the audit and the reports, which end by themselves; generous, since nobody sees them move."""
_LOOK_S = 0.5
_MASTER = "local[2]"
_LAST_WORDS_BYTES = 1000
_WINDOW_S = DEFAULT_WINDOW_MS / 1000


@dataclass(frozen=True, slots=True)
class TierRate:
    """How long after the first event a tier had them all, and what that comes to."""

    tier: str
    events: int
    seconds: float

    @property
    def events_per_s(self) -> float:
        """Events of the whole run, over that time."""
        return self.events / max(self.seconds, 1e-3)


@dataclass(slots=True)
class TiersResult:
    """What the tiers came to. `totals`, `gaps` and `doubts` are those of `kafka2011 audit --json`."""

    frontends: str
    rows: int = 0
    quarantined: int = 0
    totals: list[dict[str, Any]] = field(default_factory=list)
    gaps: int = 0
    doubts: list[dict[str, Any]] = field(default_factory=list)
    rates: list[TierRate] = field(default_factory=list)
    latency: Latency | None = None
    report: Path | None = None
    report_error: str = ""

    def failures(self) -> list[str]:
        """Say what did not go as it should."""
        failures = []
        if not self.totals:
            failures.append("nothing was audited")
        if self.gaps:
            failures.append(f"the audit has found {self.gaps} windows with a gap")
        if self.doubts:
            failures.append(f"the audit cannot tell of {self.doubts[0]['topic']}: {self.doubts[0]['why']}")
        if self.quarantined:
            failures.append(f"{self.quarantined} messages could not be decoded")
        if self.report_error:
            failures.append(f"no reports: {self.report_error}")
        return failures


class Tiers:
    """Starts the tiers around a live cluster, and sees everything through to the last of them; a context manager.

    Without Spark the offline cluster is the last one. Reports are copied into the directory `report`. Without one
    there is only what every event passes on its way to the warehouse: no reports, no online readers.
    """

    def __init__(
        self,
        frontends: Frontends,
        directory: Path,
        say: Callable[[str], object],
        *,
        has_spark: bool,
        report: Path | None,
    ) -> None:
        self._frontends = frontends
        self._directory = directory
        self._say = say
        self._has_spark = has_spark
        self._report = report
        self._stack = ExitStack()
        self._processes: dict[str, ChildProcess] = {}
        self._warehouse = directory / "warehouse"
        self._arrivals: Arrivals | None = None
        self._committed: dict[str, int] = {}
        self._account: dict[str, Any] = {}
        self._began_s = 0.0
        self._until_s = 0.0  # by the clock on the wall, when the last window of events is over
        self._following = threading.Thread(target=self._run, name="demo tiers", daemon=True)
        self._closing = threading.Event()
        self._failure: Exception | None = None
        self.result = TiersResult(frontends.tier)

    def __enter__(self) -> Tiers:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        if self._following.ident is not None:
            self._following.join()
        self._stack.close()

    def start(self, live: LocalCluster, settings: dict[str, object]) -> None:
        """Start an offline cluster with these settings of its broker, and all that moves events."""
        self._live = live
        readers = "" if self._report is None else " and online readers"
        self._say(f"tiers: starting the offline cluster, a mirror into it{readers}")
        self._offline = self._stack.enter_context(
            LocalCluster(1, directory=self._directory / OFFLINE, properties=settings)
        )
        topics = "|".join(self._frontends.topics)
        self._begin(
            MIRROR,
            *("mirror", "--from", live.zk_connect, "--to", self._offline.zk_connect, "--group", MIRROR),
            *("--whitelist", f"{topics}|{AUDIT_TOPIC}", "--audit", MIRROR, "--schemas"),
            *("--consumer-property", _SESSION, "--consumer-property", _COMMITS),
        )
        if self._report is not None:
            self._begin_online(live, topics)
        if self._has_spark:
            self._begin_load(topics)
        what = "made-up events" if self._frontends.file is None else f"{self._frontends.file} by the collector"
        self._say(f"tiers: {what}")
        self._began_s = time.monotonic()
        state = self._directory / "collector"
        self._begin(self._frontends.tier, *self._frontends.arguments(live.zk_connect, state))
        self._following.start()

    def _begin_online(self, live: LocalCluster, topics: str) -> None:
        self._begin(
            ONLINE,
            *("consume", "--whitelist", topics, "--group", ONLINE, "--audit", ONLINE, "--from-beginning"),
            *("--format", ".", "--zookeeper", live.zk_connect, "--property", _SESSION),
            *("--property", _COMMITS),
        )

    def _begin_load(self, topics: str) -> None:
        self._say(f"tiers: starting Spark, which loads the offline cluster every {LOAD_INTERVAL_S} s")
        from kafka2011.demo.arrivals import Arrivals  # noqa: PLC0415  # needs the extra warehouse, and Spark's tier alone

        self._arrivals = Arrivals(self._warehouse, self._frontends.topics, self._say)
        self._arrivals.start()
        self._stack.callback(self._arrivals.close)
        self._begin(
            WAREHOUSE,
            *("load", "--warehouse", str(self._warehouse), "--whitelist", topics, "--audit", WAREHOUSE),
            *("--follow", "--interval", str(LOAD_INTERVAL_S), "--master", _MASTER),
            *("--zookeeper", self._offline.zk_connect),
        )

    def pids(self) -> dict[str, int]:
        """Return the processes of the tiers that run, and the broker of the offline cluster."""
        brokers = {f"{OFFLINE} broker": broker.process for broker in self._offline.brokers.values()}
        running = {**self._processes, **brokers}
        return {name: process.pid for name, process in running.items() if process.running}

    def finish(self) -> TiersResult:
        """Wait until every event is in the last tier, then make the audit and the reports. Raises KafkaError."""
        self._following.join()
        if self._failure is not None:
            raise self._failure
        self._audit()
        if self._has_spark:
            self._stop(WAREHOUSE)
        if self._has_spark and self._report is not None:
            try:
                self._make_reports(self._report)
            except (KafkaError, OSError) as error:  # what was found out so far is still worth showing
                self.result.report_error = str(error)
        return self.result

    # Inside ----------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001  # raised by finish, in the thread that waits
            self._failure = error

    def _follow(self) -> None:
        """See every event through, and end each tier once it has them all."""
        tier = self._frontends.tier
        self._await(lambda: self._processes[tier].poll() is not None, "the frontends' end")
        self._reached(tier)
        # The last window must be over before tiers say the last of what they have read.
        self._until_s = (time.time() // _WINDOW_S + 1) * _WINDOW_S
        self._await(lambda: time.time() >= self._until_s, "the end of the last window")
        topics = self._frontends.topics
        if ONLINE in self._processes:
            self._await(lambda: self._has_read(self._live, ONLINE, topics), "the online readers")
            self._end(ONLINE)
        self._await(lambda: self._has_read(self._live, MIRROR, (*topics, AUDIT_TOPIC)), "the mirror")
        self._end(MIRROR)
        if self._arrivals is not None:
            ends = self._ends_offline()
            arrivals = self._arrivals
            self._await(lambda: all(arrivals.has_reached(topic, ends[topic]) for topic in topics), "the last load")
            self._reached(WAREHOUSE)
            arrivals.close()
            self.result.rows, self.result.quarantined = arrivals.rows, arrivals.quarantined
            self.result.latency = arrivals.latency()

    def _begin(self, name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "kafka2011", *arguments]
        process = ChildProcess(command, self._directory / f"{name}.log", stop_timeout_s=_STOP_TIMEOUT_S)
        self._processes[name] = self._stack.enter_context(process)

    def _end(self, name: str) -> None:
        """End a tier in order, so that it reports its counts."""
        self._reached(name)
        self._stop(name)

    def _stop(self, name: str) -> None:
        self._processes[name].stop()
        self._check(name)

    def _reached(self, name: str) -> None:
        """Note that a tier has everything."""
        seconds = time.monotonic() - self._began_s
        self.result.rates.append(TierRate(name, 0, seconds))
        self._say(f"tiers: {seconds:5.1f} s  {name} has everything")

    def _check(self, name: str) -> None:
        """Raise KafkaError when a process has failed."""
        if self._processes[name].poll() not in {None, 0}:
            log = self._directory / f"{name}.log"
            last_words = log.read_bytes()[-_LAST_WORDS_BYTES:].decode(errors="replace").strip()
            raise KafkaError(f"{name} has failed: {last_words}")

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        """Wait as long as events move. Raises KafkaError when none has for long, or a process has failed."""
        patience = Patience(self._position)
        while True:
            for name in self._processes:
                self._check(name)
            if condition():
                return
            if patience.is_over():
                raise KafkaError(
                    f"nothing has moved for {patience.still_s:g} s while waiting for {what} ({how_busy()}); logs are in"
                    f" {self._directory}"
                )
            if self._closing.wait(_LOOK_S):
                raise KafkaError(f"stopped while waiting for {what}")

    def _position(self) -> tuple[int, int, int]:
        """Return what differs when an event has moved on: what logs and warehouse hold, and what was committed."""
        files = [*self._directory.rglob("*.kafka"), *self._warehouse.rglob("*")]
        return sum(map(_size_of, files)), len(files), sum(self._committed.values())

    def _has_read(self, cluster: LocalCluster, group: str, topics: Sequence[str]) -> bool:
        """Say whether a group has committed all that there is of these topics."""

        def is_behind(partition: GroupPartition) -> bool:
            return partition.end is None or 0 < partition.end != partition.committed

        with Admin(cluster.zk_connect) as admin:
            partitions = [partition for partition in admin.describe_group(group) if partition.where.topic in topics]
            known = set(topics) & set(admin.topics())
        self._committed[group] = sum(partition.committed or 0 for partition in partitions)
        return {partition.where.topic for partition in partitions} >= known and not any(map(is_behind, partitions))

    def _ends_offline(self) -> dict[str, dict[TopicPartition, int]]:
        with Admin(self._offline.zk_connect) as admin:
            known = set(admin.topics())
            return {
                topic: {partition.where: partition.latest or 0 for partition in admin.describe_topic(topic)}
                if topic in known
                else {}
                for topic in self._frontends.topics
            }

    def _audit(self) -> None:
        """Compare the tiers, where all reports are: in the offline cluster."""
        self._say("tiers: the audit")
        tiers = [tier for tier in (self._frontends.tier, ONLINE, MIRROR, WAREHOUSE) if tier in self._processes]
        options = [word for topic in self._frontends.topics for word in ("--topic", topic)]
        until = f"@{int(self._until_s * 1000)}"
        command = ("audit", "--json", "--tiers", ",".join(tiers), "--grace", "0", "--until", until, *options)
        # What the last load has seen is told by the next one.
        patience = Patience(self._position)
        while True:
            account = self._run_json("audit", *command, "--zookeeper", self._offline.zk_connect)
            if not account["doubts"] or patience.is_over():
                break
            time.sleep(1)
        self._account = account
        self.result.totals = account["totals"]
        self.result.gaps = account["gaps"]
        self.result.doubts = account["doubts"]
        events = dict.fromkeys(tiers, 0)
        for row in self.result.totals:
            events[row["tier"]] += row["distinct"]
        self.result.rates = [TierRate(rate.tier, events[rate.tier], rate.seconds) for rate in self.result.rates]

    def _run_json(self, name: str, *arguments: str) -> dict[str, Any]:
        """Run a command to its end, and return what it printed; `audit` fails too where it cannot tell."""
        log = self._directory / f"{name}.log"
        log.unlink(missing_ok=True)
        self._begin(name, *arguments)
        self._processes[name].wait(_COMMAND_TIMEOUT_S)
        del self._processes[name]
        text = log.read_text(errors="replace")
        try:
            document: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
        except ValueError as error:
            raise KafkaError(f"{name} has failed: {text[-_LAST_WORDS_BYTES:].strip()}") from error
        return document

    def _make_reports(self, copy: Path) -> None:
        self._say("tiers: the reports")
        into = self._directory / "reports"
        audit = self._directory / "audit.json"
        audit.write_text(json.dumps(self._account))
        options = ("--warehouse", str(self._warehouse), "--into", str(into), "--audit", str(audit), "--json")
        made = self._run_json("report", "report", *options)
        page = Path(made["page"])
        if (copy / "_derived.json").exists():  # of an earlier demo
            shutil.rmtree(copy)
        shutil.copytree(page.parent, copy, dirs_exist_ok=True)
        self.result.report = copy.absolute() / page.name


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # gone meanwhile
        return 0
