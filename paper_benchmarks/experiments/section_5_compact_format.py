"""Compact format: how many bytes a message takes on disk and on the wire, in every system."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.clients.measure import consume, produce
from paper_benchmarks.experiments.experiment import Experiment, Size
from paper_benchmarks.measuring.payloads import BATCH, PAYLOAD_BYTES
from paper_benchmarks.measuring.stored_files import Stored, growth, sizes, stored_files
from paper_benchmarks.pages.pictures import image, lying, plots
from paper_benchmarks.pages.tables import number, table, text, whole
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.relay import Relay, Relayed
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from paper_benchmarks.clients.measure import Run
    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.system import Kind, System

PAPER_OVERHEAD = {"Kafka": 9, "ActiveMQ": 144}
"""Bytes for each message, in the text of section 5."""
SINGLE, BATCHED, READ = "a message a send", "50 a send", "read"
"""What goes over the wire."""
NOTHING_MEASURED: Mapping[str, Any] = {"payload_bytes": PAYLOAD_BYTES, "lines": []}
_STORED_SHARE = 0.1
"""Who writes less than this of the payloads does not store messages, but lines of a log."""
_FIRST_MESSAGES = 100
_QUIET_S = 6.0  # ActiveMQ writes its index every 5 s
_QUIET_TIMEOUT_S = 60.0
_SAMPLE_S = 0.5


def measure(bench: Bench) -> dict[str, Any]:
    """Have every system store messages that came through a relay, and look at its files."""
    messages = bench.sized(toy=1000, small=200_000, paper=2_000_000)
    lines: list[dict[str, Any]] = []
    for kind in bench.kinds:
        with bench.start(kind, Flush.ASYNCHRONOUS) as system:
            facts = {"kind": kind.name, "version": system.version}
            lines += [{**facts, **line} for line in _lines(bench, kind, system, messages)]
    return {"messages": messages, "payload_bytes": PAYLOAD_BYTES, "lines": lines}


def _lines(bench: Bench, kind: Kind, system: System, messages: int) -> Iterator[dict[str, Any]]:
    # Our usual consumer learns the broker's own address from ZooKeeper, which leads past the relay.
    reader = "simple" if kind.name == OWN else kind.consume[0]
    clients = {kind.title: kind.produce[0]}
    if kind.name == OWN:
        clients = {f"{kind.title}, magic 1": "sync", f"{kind.title}, magic 0": "sync-magic-0"}
    for title, client in clients.items():
        bench.say(f"{title}: store {messages:,}")
        yield {"title": title, **_line(bench, kind, system, client, reader, messages)}


def _line(bench: Bench, kind: Kind, system: System, client: str, reader: str, messages: int) -> dict[str, Any]:
    produce(kind, system, client, _FIRST_MESSAGES, batch=BATCH)  # whatever a first message takes
    before = _at_rest(bench, system.directory)
    stored, sent = _counted(system, lambda through: produce(kind, through, client, messages, batch=BATCH))
    after = _at_rest(bench, system.directory)
    wire = {BATCHED if kind.batches else SINGLE: sent}
    if kind.batches:
        _, wire[SINGLE] = _counted(system, lambda through: produce(kind, through, client, messages // 4, batch=1))
    _, wire[READ] = _counted(system, lambda through: consume(kind, through, reader, stored.topic, stored.landed))
    files = {purpose: part._asdict() for purpose, part in growth(before, after).items()}
    return {"stored_messages": stored.landed, "files": files, "wire": wire}


def _counted(system: System, run: Callable[[System], Run]) -> tuple[Run, dict[str, float] | None]:
    """Run through a relay; return the run, and bytes for each message, None where it went past the relay."""
    with Relay(system.host, system.port) as relay:
        done = run(Relayed(system, relay))
    messages = done.landed or done.messages
    if relay.to_server + relay.to_clients < messages * PAYLOAD_BYTES:
        return done, None
    return done, {"to_server": relay.to_server / messages, "to_client": relay.to_clients / messages}


def _at_rest(bench: Bench, directory: Path | None) -> dict[str, Stored]:
    """Wait until files have not grown for a while; return what is in them, nothing where there are none.

    The wait has a limit: a server may never stop to write its own log.
    """
    if directory is None:
        return {}
    quiet_s = 0.0 if bench.size is Size.TOY else _QUIET_S
    deadline_s = time.monotonic() + _QUIET_TIMEOUT_S
    since_s, found = time.monotonic(), sizes(directory)
    while time.monotonic() - since_s < quiet_s and time.monotonic() < deadline_s:
        time.sleep(_SAMPLE_S)
        if (now := sizes(directory)) != found:
            since_s, found = time.monotonic(), now
    return stored_files(directory)


# The report ----------------------------------------------------------------------------------------------------------


class OnDisk(NamedTuple):
    """Bytes for each message: written, and the room that files take, which may have been made before it is needed."""

    written: float
    room: float
    overhead: float


def on_disk(body: Mapping[str, Any]) -> dict[str, OnDisk]:
    """Return what a message takes in each system that stores it."""
    found = {}
    for line in body["lines"]:
        written = sum(part["written"] for part in line["files"].values()) / line["stored_messages"]
        room = sum(part["room"] for part in line["files"].values()) / line["stored_messages"]
        if written >= _STORED_SHARE * body["payload_bytes"]:
            found[line["title"]] = OnDisk(written, room, written - body["payload_bytes"])
    return found


def more_space(body: Mapping[str, Any], title: str) -> float | None:
    """Return how much more a system writes than our magic 0, the paper's format: 0.65 is 65% more."""
    found = on_disk(body)
    ours = next((each for name, each in found.items() if name.endswith("magic 0")), None)
    return None if ours is None or title not in found else found[title].written / ours.written - 1


TEXT = """\
The paper's second reason for figure 4 (section 5): a message has an overhead of 9 bytes in Kafka, and of 144 in
ActiveMQ, which is called 70% more space for the same 10 million messages (with payloads of 200 bytes, 344 against 209
are {paper:.0%} more). The reasons given are heavy headers, and indexes of messages and their state; section 5 names
the format for figure 5 too, as fewer bytes go to consumers.

On the left what a message of {payload} bytes takes on disk: the payload, what is written besides, and room that files
take without anything written in it (blocks of zeros, made ready before they are needed); shorter is better, but below
the payload some messages are still in memory. Magic 1 is what our clients send, magic 0 the paper's format. On the
right the bytes that go over the connection for a message, counted by a relay, both ways together: a message a send, 50
a send where a client can, and reading them; what opens a connection is among them."""


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw bytes on disk and on the wire, and put them, and what files they are in, into tables."""
    path = pictures / "storage.svg"
    _draw(path, body)
    paper = (PAYLOAD_BYTES + PAPER_OVERHEAD["ActiveMQ"]) / (PAYLOAD_BYTES + PAPER_OVERHEAD["Kafka"]) - 1
    on_disk_rows = [
        {"title": title, **each._asdict(), "more": more_space(body, title)} for title, each in on_disk(body).items()
    ]
    disk = table(
        on_disk_rows,
        [
            ("bytes a message on disk", text("title")),
            ("written", whole("written", digits=1)),
            ("overhead", whole("overhead", digits=1)),
            ("room", whole("room", digits=1)),
            ("against magic 0", lambda row: None if row["more"] is None else f"{row['more']:+.1%}"),
        ],
    )
    for title, overhead in PAPER_OVERHEAD.items():
        disk += f"\n| {title}, 2011 | {PAYLOAD_BYTES + overhead} | {overhead} | - | - |"
    files = table(
        [(line, purpose, part) for line in body["lines"] for purpose, part in line["files"].items()],
        [
            ("in which files", text(0, "title")),
            ("what for", text(1)),
            ("written", lambda row: number(row[2]["written"] / row[0]["stored_messages"], 1)),
            ("room", lambda row: number(row[2]["room"] / row[0]["stored_messages"], 1)),
        ],
    )
    wire = table(
        _on_the_wire(body),
        [("bytes a message on the wire, to the server + back", text("title"))]
        + [(what, partial(_both, what=what)) for what in (SINGLE, BATCHED, READ)],
    )
    picture = image(path, "Bytes for each message, on disk and on the wire")
    return "\n\n".join([TEXT.format(paper=paper, payload=body["payload_bytes"]), picture, disk, files, wire])


def _on_the_wire(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [line for line in body["lines"] if any(line["wire"].values())]


def _both(line: Mapping[str, Any], what: str) -> str | None:
    wire = line["wire"].get(what)
    return None if wire is None else f"{wire['to_server']:,.1f} + {wire['to_client']:,.1f}"


def _draw(path: Path, body: Mapping[str, Any]) -> None:
    shares, payload = on_disk(body), body["payload_bytes"]
    with plots(path, 2, width=10, height=1.6 + 0.45 * len(body["lines"])) as [disk, wire]:
        names = list(shares)
        left = [min(payload, shares[name].written) for name in names]
        disk.barh(names, left, color="#bbbbbb", label="payload")
        written = [max(shares[name].overhead, 0) for name in names]
        disk.barh(names, written, left=left, color="#c1121f", label="written besides")
        ends = [shares[name].written for name in names]
        spare = [max(shares[name].room - shares[name].written, 0) for name in names]
        bars = disk.barh(names, spare, left=ends, color="#f4c6a5", label="room with nothing in it")
        disk.bar_label(bars, labels=[f"{end:,.0f}" for end in ends], fontsize=8, padding=3)
        lying(disk, "bytes a message on disk")
        lines = _on_the_wire(body)
        titles = [line["title"] for line in lines]
        for offset, what, tint in ((-0.27, SINGLE, "#1d6fb8"), (0.0, BATCHED, "#7fb0dd"), (0.27, READ, "#0b6e4f")):
            values = [sum((line["wire"].get(what) or {}).values()) for line in lines]
            places = [place + offset for place in range(len(titles))]
            bars = wire.barh(places, values, height=0.25, color=tint, label=what)
            wire.bar_label(bars, labels=[f"{value:,.0f}" if value else "" for value in values], fontsize=7, padding=3)
        wire.set_yticks(range(len(titles)), titles)
        lying(wire, "bytes a message on the wire, both ways")
        for axes in (disk, wire):
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1, handlelength=1)


EXPERIMENT = Experiment("storage", "Why: compact format", measure, chapter)
