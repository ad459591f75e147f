"""What the report says of the paper's claims."""

from __future__ import annotations

from typing import Any

from paper_benchmarks.experiments import link
from paper_benchmarks.experiments import section_5_no_acknowledgement as acknowledgement
from paper_benchmarks.report.claims import chapter
from tests.paper_benchmarks.runs import figures


def line(kind: str, do: str, title: str, rate: float, flush: str = "asynchronous") -> dict[str, Any]:
    return {"kind": kind, "line": title, "flush": flush, "do": do, "steady_rate": rate}


LINES = [
    line("kafka2011", "produce", "SyncProducer, batch 50", 1.0, "shipped"),
    line("kafka2011", "produce", "SyncProducer, batch 50", 600_000.0),
    line("kafka2011", "produce", "SyncProducer, batch 1", 45_000.0),
    line("kafka2011", "consume", "a stream, batches()", 100_000.0),
    line("rabbitmq", "produce", "batch 50", 20_000.0),
    line("rabbitmq", "consume", "pika", 50_000.0),
]


def test_claims_are_held_against_the_run_with_asynchronous_flush() -> None:
    """Nearly the paper's figure is enough; ratios are of that run too."""
    text = chapter({"figures": {"lines": LINES}})
    assert "| 45,000 and 600,000 | reproduces |" in text
    assert "| 30.0 x at batch 50, 2.25 x at batch 1 (RabbitMQ 20,000) | reproduces |" in text
    assert "| 2.00 x (RabbitMQ 50,000) | does not |" in text


def test_what_was_not_measured_is_left_out() -> None:
    """And there is no chapter when nothing was."""
    assert "ActiveMQ" not in chapter({"figures": {"lines": LINES}})
    assert chapter({}) == ""


def test_a_link_is_saturated_at_the_papers_share() -> None:
    """Megabits of requests over what the link carries; nothing is said where there was none."""
    lines = [
        {"way": way, "line": each, **figures(500_000.0)} for way in (link.LOOPBACK, link.LINK) for each in link.LINES
    ]
    body = {"bits_per_s": 1e9, "missing": "", "lines": lines}
    assert "| 84% of it, in requests | reproduces |" in chapter({"link": body})
    assert chapter({"link": {**body, "missing": "no namespaces", "lines": lines[:3]}}) == ""


def test_the_pipeline_is_held_against_ten_seconds() -> None:
    """On average; a run without Spark has no latency."""
    assert "| 25.0 s at 11,600 events a second | does not |" in chapter(
        {"pipeline": {"rate": 11_600, "latency": {"mean_s": 25.0}}}
    )
    assert chapter({"pipeline": {"rate": 11_600, "latency": None}}) == ""


def test_reasons_are_held_against_what_was_measured_of_them() -> None:
    """Each by the experiment that measures it."""
    rates = {**dict.fromkeys(acknowledgement.WAYS, 1.0), "batch 1, unconfirmed": 60.0}
    rates["batch 1, waited for one by one"] = 6.0
    text = chapter(
        {
            "ablation": {
                "acknowledgement": {name: figures(rate) for name, rate in rates.items()},
                "sendfile": {"sendfile": {"cpu_us": [1.0] * 3}, "read and send": {"cpu_us": [3.0] * 3}},
                "page_cache": {"states": [{"state": "broker restarted", "from_disk": 0.0}]},
            },
            "table": {"ratios": {"produce, batch 50 over batch 1": [1.0, 7.5, 9.0]}},
            "storage": {"payload_bytes": 200, "lines": [stored("kafka2011, magic 0", 209), stored("ActiveMQ", 344)]},
            "state": {"lines": [read("kafka2011", 0), read("activemq", 5000)]},
            "accumulation": {"lines": [{"title": "kafka2011", "steps": ACCUMULATED}]},
        }
    )
    assert "| 10.0 x | reproduces |" in text
    assert "| 7.50 x | reproduces |" in text
    assert "| 9.00 with magic 0; ActiveMQ 144 | reproduces |" in text
    assert "| 65% more | reproduces |" in text
    assert "| bytes for a message: kafka2011 0, activemq 5.00 | reproduces |" in text
    assert "| read and send takes 3.00 x the CPU time | reproduces |" in text
    assert "| 0% read from the disk | reproduces |" in text
    assert "| 1.00 and 0.500 of the first rates at 20.0 GB | does not |" in text


ACCUMULATED = [
    {"backlog": 0, "stored_bytes": 0.0, "produce": [2.0] * 3, "consume": [2.0] * 3},
    {"backlog": 1, "stored_bytes": 20e9, "produce": [2.0] * 3, "consume": [1.0] * 3},
]


def stored(title: str, written: int) -> dict[str, Any]:
    return {"title": title, "stored_messages": 1, "files": {"log": {"written": written, "room": 4096}}}


def read(kind: str, consume_bytes: int) -> dict[str, Any]:
    return {"kind": kind, "title": kind, "consume_bytes": consume_bytes, "messages": 1000}
