"""What the first page says of what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiments.experiment import write_document
from paper_benchmarks.experiments.floors import CALL, CRC, MEMCPY, PARTS, RECV, SEND, SENDFILE_PART, WRITE, floors
from paper_benchmarks.measuring.samples import FEW
from paper_benchmarks.report.claims import CLAIMS, DOES_NOT, REPRODUCES, UNDECIDED
from paper_benchmarks.report.headlines import CLOCK, lines_of, pairs, tables
from paper_benchmarks.report.report import write_report
from paper_benchmarks.systems.kinds import KINDS
from paper_benchmarks.systems.system import Way
from paper_benchmarks.workers.sockets import COPY, SENDFILE
from tests.paper_benchmarks.runs import line

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = {"cores": 2, "processor": "p", "memory_bytes": 2**30, "kernel": "6", "python": "3", "file_system": "ext4"}
SENDFILE_CLAIM = "sendfile saves copies and a system call"
RABBIT_CLAIM = "and at least twice RabbitMQ"


def systems(*lines: dict[str, Any]) -> dict[str, Any]:
    parts = dict.fromkeys(PARTS, [0.1] * 7)
    return {"rounds": 7, "floors": parts, "systems": {}, "lines": list(lines)}


def verdict(says: str, **bodies: Any) -> str:
    [claim] = [claim for claim in CLAIMS if claim.says == says]
    found = claim.find(bodies)
    assert found is not None
    return found.verdict


def test_ours_stands_beside_the_best_of_all_others() -> None:
    """Of those that do the same for the same promise; our Python stands beside nobody."""
    body = systems(
        line("kafka2011", Way.CONFIRMED_LISTS, [100.0] * 7, client="ours"),
        line("kafka2011", Way.SEND_LISTS, [300.0] * 7, client="unconfirmed"),
        line("kafka2011-python", Way.CONFIRMED_LISTS, [900.0] * 7, client="python"),
        line("redis", Way.CONFIRMED_LISTS, [50.0] * 7, client="lists"),
        line("kafka", Way.CONFIRMED_LISTS, [70.0, 120.0, 70.0, 70.0, 70.0, 70.0, 70.0], client="batches"),
        line("kafka", Way.CONFIRMED_EACH, [950.0] * 7, client="each"),
        line("nats", Way.SEND_BYTES, [800.0] * 7, client="bytes"),
    )
    [pair] = pairs(body, CLOCK).values()
    assert (pair.ours["line"], pair.other["line"]) == ("ours", "batches")
    by_the_clock, by_processor, behind = tables(body)
    assert "1.43 (0.833 to 1.43) spreads overlap |" in by_the_clock
    assert "spreads overlap |" in by_processor
    assert "In no row" in behind


def test_no_way_mixes_promises() -> None:
    """Confirmed and unconfirmed sends of one kind never stand in one row, and each kind names its promise."""
    promises = {"-0": "unconfirmed", "-confirmed": "confirmed"}
    for producer in (each for kind in KINDS.values() for each in kind.producers()):
        promise = producer.way.rpartition(", ")[2]
        assert promise in {"confirmed", "unconfirmed"}
        for ending, wanted in promises.items():
            assert promise == wanted or not producer.client.endswith(ending)


def test_a_slower_line_says_so() -> None:
    """In bold, in the tables, and once more by name below them."""
    body = systems(line("kafka2011", Way.READ_BYTES, [10.0] * 7), line("redis", Way.READ_BYTES, [11.0] * 7))
    by_the_clock, by_processor, behind = tables(body)
    assert by_the_clock.count("**ours is slower**") == by_processor.count("**ours costs more**") == 1
    assert behind.count("consume, bytes counted, as shipped: redis, any") == 2
    few = systems(line("kafka2011", Way.READ_BYTES, [10.0]), line("redis", Way.READ_BYTES, [11.0]))
    *both, behind = tables(few)
    assert all(FEW in each and "**ours" not in each for each in both)
    assert "In no row" in behind


def test_tuned_lines_stand_beside_tuned_lines() -> None:
    """A line that is best as shipped stands for itself in both columns."""
    body = systems(
        line("kafka2011", Way.READ_LISTS, [2e6] * 5),
        line("kafka", Way.READ_LISTS, [1e6] * 5),
        line("kafka", Way.READ_LISTS, [4e6] * 5, variant="tuned"),
    )
    row = tables(body)[0].splitlines()[-1]
    assert row.split(" | ") == [
        "| consume, lists",
        "2.00 (2.00 to 2.00) any",
        "1.00 (1.00 to 1.00) kafka, any",
        "2.00 (2.00 to 2.00) ours is faster",
        "2.00 (2.00 to 2.00) any",
        "4.00 (4.00 to 4.00) kafka, any",
        "0.500 (0.500 to 0.500) **ours is slower** |",
    ]
    assert lines_of(body)[1]["rate"] == [1e6] * 5


def test_a_claim_reproduces_when_all_rounds_say_so() -> None:
    """It is undecided when some do, and nothing is said with few rounds."""
    ours = line("kafka2011", Way.SEND_LISTS, [100.0] * 7, client="sync", batch=50)
    for theirs, said in (
        ([40.0] * 7, REPRODUCES),
        ([60.0] * 7, DOES_NOT),
        ([40.0, *[60.0] * 6], UNDECIDED),
        ([40.0] * 3, FEW),
    ):
        own = {**ours, "rate": ours["rate"][: len(theirs)]}
        assert verdict(RABBIT_CLAIM, systems=systems(own, line("rabbitmq", Way.SEND_EACH, theirs))) == said


def test_sendfile_saves_only_where_no_round_says_otherwise() -> None:
    """1.09 times within a spread around 1 is no saving."""

    def body(copies: list[float]) -> dict[str, Any]:
        costs = {SENDFILE: [1.0] * 7, COPY: copies}
        return {"sendfile": {way: {"client_cpu_us": us} for way, us in costs.items()}}

    assert verdict(SENDFILE_CLAIM, reasons=body([0.9, *[1.09] * 6])) == UNDECIDED
    assert verdict(SENDFILE_CLAIM, reasons=body([1.2] * 7)) == REPRODUCES


def test_floors_have_the_parts_that_a_path_cannot_do_without() -> None:
    """What was encoded before needs neither copy nor CRC in the client."""
    parts = {CALL: 5.0, MEMCPY: 0.1, CRC: 0.01, SEND: 2.0, RECV: 3.0, WRITE: 4.0, SENDFILE_PART: 6.0}
    client, broker = floors(parts, "produce", 50)
    assert round(client, 6) == 2.21
    assert round(broker, 6) == 7.01
    assert round(floors(parts, "produce", 50, is_bytes=True)[0], 6) == 2.1
    assert floors(parts, "consume", 1)[0] > 3.01
    assert 6 < floors(parts, "consume", 1)[1] < 6.1


def test_a_claim_about_a_queue_rests_on_bursts_where_its_long_runs_are_few() -> None:
    """A batch of 50 is compared in both: in long runs the disk may be what limits it."""
    ours = [line("kafka2011", Way.SEND_LISTS, [300.0] * 7, client="sync", batch=50, line="fifty")]
    ours.append(line("kafka2011", Way.SEND_EACH, [100.0] * 7, client="sync"))
    once, often = (
        line("rabbitmq", Way.SEND_EACH, [rate] * rounds, client="pika") for rate, rounds in ((200.0, 1), (100.0, 7))
    )
    assert verdict(RABBIT_CLAIM, systems=systems(*ours, once)) == FEW
    assert verdict(RABBIT_CLAIM, systems=systems(*ours, once), bursts=systems(*ours, often)) == REPRODUCES
    [batching] = [claim for claim in CLAIMS if claim.says.startswith("A batch of 50")]
    bursts = systems(line("kafka2011", Way.SEND_LISTS, [900.0] * 7, client="sync", batch=50, line="fifty"), ours[1])
    found = batching.find({"systems": systems(*ours), "bursts": bursts})
    assert found is not None
    assert (found.here, found.verdict) == ("3.00 (3.00 to 3.00) x, in bursts 9.00 (9.00 to 9.00) x", DOES_NOT)


def test_the_first_page_says_on_what_machine_and_how_busy_it_was(tmp_path: Path) -> None:
    """And has both figures; what a busy machine gave is marked, and details are on the page behind."""
    body = systems(
        line("kafka2011", Way.SEND_LISTS, [100.0] * 7, client="sync", batch=50),
        line("redis", Way.SEND_LISTS, [50.0] * 7),
        line("kafka2011", Way.READ_LISTS, [100.0] * 7, client="batches"),
    )
    document = {
        "benchmark": "systems",
        "size": "small",
        "started": "2026-11-23T08:45:00",
        "machine": MACHINE,
        "cores_used_by_others": [0.1, 0.9, 1.2],
        "left_out": {"NATS JetStream": "not installed"},
        "body": body,
    }
    results = tmp_path / "results"
    write_document(results / "bursts.json", document)
    assert write_report(results, tmp_path) == ["bursts"]
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "kept 0.9 cores busy (0.1 to 1.2)" in page
    assert "not quiet" in page
    assert "These are bursts" in page
    assert "Left out: NATS JetStream (not installed)" in page
    assert sorted(path.name for path in (results / "pictures").iterdir()) == ["figure-4.svg", "figure-5.svg"]
    details = (tmp_path / "DETAILS.md").read_text(encoding="utf-8")
    assert "All systems side by side, bursts" in details
    assert "Our paths and their floors" in details


def test_long_runs_lead_and_bursts_stand_behind(tmp_path: Path) -> None:
    """Once there are both, the first page has the figures of long runs alone."""
    long, short = [100.0] * 5, [900.0] * 7
    for name, rates, size in (("bursts", short, "small"), ("systems", long, "paper")):
        lines = [line("kafka2011", Way.READ_LISTS, rates), line("kafka", Way.READ_LISTS, rates)]
        document = {
            "benchmark": "systems",
            "size": size,
            "seconds": 10.0,
            "started": "2026-11-23T08:45:00",
            "machine": MACHINE,
            "cores_used_by_others": [0.0, 0.1, 0.1],
            "left_out": {},
            "body": systems(*lines),
        }
        write_document(tmp_path / "results" / f"{name}.json", document)
    assert write_report(tmp_path / "results", tmp_path) == ["systems", "bursts"]
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "at least 10 s and 2 GB, or for 30 s" in page
    assert "bursts" not in page
    assert page.count("0.0009") == 0
