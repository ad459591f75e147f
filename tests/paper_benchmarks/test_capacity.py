"""The model of brokers, disks and registries, and where its costs come from."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.capacity.plan import COSTS_US, Flow, Machine, most_per_day, need
from paper_benchmarks.capacity.registries import Registries
from paper_benchmarks.experiments.capacity import chapter, costs_us, is_close
from paper_benchmarks.measuring.payloads import sent_bytes, stored_bytes

if TYPE_CHECKING:
    from pathlib import Path

COSTS = {name: cost_us for name, (cost_us, _) in COSTS_US.items()} | {
    "broker_produce": 2.0,
    "broker_fetch": 0.5,
    "producer": 1.0,
    "consumer": 1.5,
}
BODY: dict[str, Any] = {
    "registries": {"brokers": 2, "topics": 2, "partitions": 4, "members": 3, "commit_interval_s": 1.0},
    "seconds": 5,
    "zk_cpu_us": {"write": 70.0},
    "checks": [{"what": "watches", "predicted": 10, "counted": 10, "conflicts": 0}],
}
FLOW = Flow(messages_per_day=86_400_000_000, readers=2, peak=1.0)
SMALL = Registries(brokers=2, topics=2, partitions=4, members=3, topics_of_group=2, commit_interval_s=2.0)


def test_a_message_takes_ten_bytes_more_on_disk_and_little_more_in_a_batch() -> None:
    assert stored_bytes(200) == 210
    assert 210 < sent_bytes(200, 50) < 212 < sent_bytes(200, 1)


def test_a_million_messages_a_second_cost_what_one_costs_a_million_times() -> None:
    """2 us to take each, twice 0.5 us to give it: three cores."""
    asked = need(FLOW, COSTS)
    assert asked.broker_cores == pytest.approx(3.0)
    assert asked.producer_cores == pytest.approx(1.0)
    assert asked.consumer_cores == pytest.approx(3.0)
    assert asked.out_bytes_per_s == pytest.approx(420e6)
    assert asked.kept_bytes == pytest.approx(86_400e6 * 210 * 7)


def test_brokers_are_counted_for_each_bound() -> None:
    """With half of a core, of 127 TB, of 8.4 Gb/s."""
    machine = Machine(link_bits_per_s=8.4e9, disk_bytes=127.1e12, share=0.5)
    assert need(FLOW, COSTS).brokers(machine) == {"processor": 6, "disk": 2, "network": 1}


def test_what_many_brokers_take_is_the_inverse_of_what_messages_need() -> None:
    machine = Machine()
    most = most_per_day(1000, FLOW, COSTS, machine)
    for bound, messages in most.items():
        there = need(replace(FLOW, messages_per_day=messages), COSTS).brokers(machine)
        assert there[bound] in {1000, 1001}


def test_single_messages_cost_more() -> None:
    assert need(replace(FLOW, batch=1), COSTS).producer_cores == pytest.approx(COSTS["producer_single"])


def test_every_watch_of_a_group_is_counted() -> None:
    """Each member: the list of members, three of them; lists of brokers and of two topics', each with two entries."""
    assert SMALL.watches == 3 * (1 + 3 + 3 * 3) + 16 + 1
    assert replace(SMALL, groups=0, producers=1, topics_of_producer=2).watches == 3 * 3 + 1


def test_every_znode_is_counted() -> None:
    """Three parents, brokers, topics; for the group its root, ids, owners, offsets."""
    assert SMALL.znodes == 5 + 3 + 2 + 2 * 3 + 1 + 4 + 3 + 2 * (2 + 16)


def test_commits_do_not_depend_on_members() -> None:
    assert SMALL.writes_per_s == 8.0
    assert replace(SMALL, members=5).writes_per_s == 8.0
    assert replace(SMALL, writing=0.25).writes_per_s == 2.0


def test_a_broker_that_goes_is_read_about_by_every_member() -> None:
    """Reads grow with members times brokers times topics."""
    large = Registries(brokers=100, topics=50, topics_of_group=50, members=10)
    once = large.broker_goes().reads
    assert replace(large, members=20).broker_goes().reads == pytest.approx(2 * once, rel=0.1)
    assert replace(large, brokers=200).broker_goes().reads == pytest.approx(2 * once, rel=0.1)


def test_costs_are_those_of_our_runs_as_shipped() -> None:
    """And of ZooKeeper as the small cluster had them; what was not measured now is as it was before."""
    run = {"kind": "kafka2011", "flush": "shipped", "do": "produce", "client": "sync", "batch": 50}
    lines = [
        {**run, "flush": "asynchronous", "client_cpu_us": 9.0, "server_cpu_us": 0.75},
        {**run, "client_cpu_us": 0.25, "server_cpu_us": 0.75},
        {**run, "kind": "rabbitmq", "client_cpu_us": 9.0, "server_cpu_us": 0.75},
    ]
    found = costs_us(BODY, {"lines": lines})
    assert (found["producer"], found["broker_produce"], found["zk_write"]) == (0.25, 0.75, 70.0)
    assert found["consumer"] == COSTS_US["consumer"][0]
    assert costs_us(BODY, None)["producer"] == COSTS_US["producer"][0]


def test_claims_that_failed_are_no_fault_of_the_model() -> None:
    check = {"what": "writes, a member comes", "predicted": 20, "counted": 34, "conflicts": 0}
    assert not is_close(check)
    assert is_close({**check, "conflicts": 10})


def test_the_chapter_has_its_picture_and_the_costs_that_were_measured(tmp_path: Path) -> None:
    line = {"kind": "kafka2011", "flush": "shipped", "do": "consume", "client": "batches", "batch": 1}
    lines = [{**line, "client_cpu_us": 0.125, "server_cpu_us": 0.5}]
    (tmp_path / "figures.json").write_text(json.dumps({"body": {"lines": lines}}), encoding="utf-8")
    text = chapter(BODY, tmp_path / "pictures")
    assert "capacity.svg" in text
    assert (tmp_path / "pictures" / "capacity.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert "| watches | 10.0 | 10.0 | +0% | - | yes |" in text
    assert "| consumer, a message by `batches()` | 0.125 |" in text
