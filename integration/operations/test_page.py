"""What docs/how-to/operations.md says to type is typed here, on a cluster under a stand-in for systemd."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from integration.gateway.today import idempotent_producer
from integration.operations.ensemble import Ensemble
from integration.operations.machine import PAGE, ROOT, ZK_CONNECT, Machine, blocks_of
from tests.support.waiting import eventually
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)

_EXPOSURE = 20
"""Tenths that systemd may rate a unit at, of a hundred: below 3.0 it is well protected."""
NOT_TYPED = {
    "apt-get": "installs packages (in the section on ZooKeeper, nothing happens in its place)",
    "adduser": "makes a user of this machine",
    "python3": "/opt/kafka2011 is the environment of the tests",
    "/opt/kafka2011/bin/pip": "the same",
    "ln": "writes to /usr/local",
    "cp": "writes to /etc/systemd",
    "mkdir": "writes to /etc, and stands with the others",
}
"""Programs of the first block on brokers, which proof/test_debian.py types as they stand, and why tests do not.

`systemctl` is typed, but a stand-in does what the units say: no systemd runs where tests do.
"""
DONE = (
    "ZooKeeper",
    "Install brokers",
    "Add a broker",
    "Move a broker to another disk or machine",
    "Remove a broker",
    "Move a topic",
    "Upgrade and restart",
    "Back up",
    "Restore a broker",
    "Clocks",
    "Full disks",
    "I consume, and nothing comes",
)


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    """Set up ZooKeeper as the page says."""
    with Ensemble() as made:
        yield made


@pytest.fixture
def machine(ensemble: Ensemble, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Set up two brokers as the page says, in a part of ZooKeeper that no other test uses."""
    with Machine({ZK_CONNECT: f"{ensemble.zk_connect}/{request.node.name}"}) as made:
        made.run(blocks_of("Install brokers")[1])
        made.do("Add a broker")
        yield made


def publish(machine: Machine, word: str, count: int) -> list[str]:
    """Publish numbered lines to all partitions of `views`, confirmed, and return them."""
    lines = [f"{word}-{n}" for n in range(count)]
    machine.run(f"printf '%s\\n' {shlex.join(lines)} | kafka2011 produce views --key-regex '(.*)'")
    return lines


def consume(machine: Machine, count: int) -> list[str]:
    """Have the group `reports` read as many lines, from where it was."""
    command = f"kafka2011 consume --topic views --group reports --from-beginning --max-messages {count}"
    return machine.run(command).splitlines()


def stored(machine: Machine) -> list[str]:
    """Return all lines of `views` that brokers have."""
    return machine.run("kafka2011 fetch views").splitlines()


def brokers_of(machine: Machine, topic: str) -> set[int]:
    """Return which brokers have a topic."""
    return {row["broker"] for row in json.loads(machine.run(f"kafka2011 topics describe {topic} --json"))}


def test_all_that_the_page_says_to_type_is_typed() -> None:
    """Every section with commands is done by a test, and the address that they go by is the page's."""
    sections = re.findall(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [section for section in sections if blocks_of(section)] == list(DONE)
    installing = blocks_of("Install brokers")[0].splitlines()
    assert {line.split()[0] for line in installing} == set(NOT_TYPED)
    assert f"```sh\nexport KAFKA2011_ZK_CONNECT={ZK_CONNECT}\n```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "systemd").iterdir()), ids=lambda path: path.name)
def test_systemd_reads_the_units(path: Path, tmp_path: Path) -> None:
    """Each unit is one that systemd has nothing to say about."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    unit = tmp_path / path.name
    unit.write_text(path.read_text(encoding="utf-8").replace("/opt/kafka2011/bin/kafka2011", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={_EXPOSURE}", "--no-pager", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout + rated.stderr


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "systemd").iterdir()), ids=lambda path: path.name)
def test_units_start_what_there_is(path: Path) -> None:
    """A unit's command is one of the command line's, with its options; calls that it may not make fail."""
    [line] = re.findall(r"^ExecStart=/opt/kafka2011/bin/kafka2011 (.*)$", path.read_text(), re.MULTILINE)
    command, *options = shlex.split(line)
    assert "\nSystemCallErrorNumber=EPERM\n" in path.read_text()  # or systemd kills it for cachestat(2), as it did
    said = subprocess.run(
        [sys.executable, "-m", "kafka2011", command, "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    assert all(option in said.stdout for option in options if option.startswith("--"))


def test_adding_and_moving_a_broker(machine: Machine) -> None:
    """Another broker shares the topic; on another disk it has the same messages at the same offsets."""
    assert brokers_of(machine, "views") == {1, 2}
    publish(machine, "shared", 40)
    before = machine.run("kafka2011 offsets show views --json")
    machine.do("Move a broker to another disk or machine")
    assert machine.run("kafka2011 offsets show views --json") == before
    assert list(machine.path("/srv/kafka2011/broker-2").glob("views-*/*.kafka"))


def test_removing_a_broker(machine: Machine) -> None:
    """What the group had not read of a broker that leaves, it reads from those that stay."""
    consume(machine, len(publish(machine, "before", 40)))
    lines = publish(machine, "leaving", 40)
    read = consume(machine, 5)
    said = machine.do("Remove a broker")
    assert re.search(r"views/2-\d: \d+ bytes from offset [1-9]", said)
    assert brokers_of(machine, "views") == {1}
    assert sorted(read + consume(machine, len(lines) - len(read))) == sorted(lines)
    assert "kafka2011-broker@2" not in machine.services.running


def test_moving_a_topic(machine: Machine) -> None:
    """The topic is served by another broker, the old one keeps its others, and the group reads everything."""
    machine.run("kafka2011 topics create searches --brokers 1")
    lines = publish(machine, "moved", 40)
    read = consume(machine, 5)
    machine.do("Move a topic")
    assert brokers_of(machine, "views") == {2}
    assert brokers_of(machine, "searches") == {1}
    assert sorted(read + consume(machine, len(lines) - len(read))) == sorted(lines)


def test_a_rolling_restart(machine: Machine) -> None:
    """Every broker is there again, and nothing is missing."""
    lines = publish(machine, "restarted", 20)
    before = {name: child.pid for name, child in machine.services.running.items()}
    machine.do("Upgrade and restart")
    assert all(child.pid != before[name] for name, child in machine.services.running.items())
    assert sorted(consume(machine, len(lines))) == sorted(lines)


def test_backup_and_restore(machine: Machine) -> None:
    """A group reads again what it read after the backup, of the broker that was restored."""
    consume(machine, len(publish(machine, "before", 20)))
    machine.do("Back up")
    logs_back, offsets_back = blocks_of("Restore a broker")
    offsets = machine.run("kafka2011 offsets export --group reports")
    consume(machine, len(publish(machine, "after", 20)))
    machine.run(logs_back)
    rows = json.loads(machine.run("kafka2011 groups --group reports --json"))
    assert any(row["lag_bytes"] < 0 for row in rows)
    machine.run(offsets_back)
    assert machine.run("kafka2011 offsets export --group reports") == offsets
    left = [line for line in stored(machine) if line.startswith("after-")]
    assert 0 < len(left) < 20
    assert sorted(consume(machine, len(left))) == sorted(left)


def test_a_full_disk(machine: Machine) -> None:
    """The oldest segment makes room, and what follows it is read as before."""
    lines = [line for n in range(5) for line in publish(machine, f"disk-{n}", 100)]
    said = machine.do("Full disks")
    [removed] = re.findall(r"removed '(.*)'", said)
    assert removed.endswith("/views-0/00000000000000000000.kafka")
    left = stored(machine)
    assert left
    assert set(left) < set(lines)


def test_a_wait_for_the_clock_is_ended(machine: Machine) -> None:
    """A broker that cannot tell whether its clock has moved deletes nothing by age, until its notes are removed."""

    def waits() -> bool:
        return "deletes no segments by age" in machine.run("kafka2011 doctor --seconds 0 || true")

    notes = machine.path("/var/lib/kafka2011/broker-1/clock")
    eventually(notes.exists, what="the clock is noted")
    machine.run("systemctl stop kafka2011-broker@1")
    notes.write_text("damaged")
    machine.run("systemctl start kafka2011-broker@1")
    eventually(waits, what="doctor says so")
    machine.do("Clocks")
    eventually(lambda: not waits(), what="it waits no longer")
    eventually(notes.exists, what="the clock is noted again")


def test_collector_and_mirror(machine: Machine, tmp_path: Path) -> None:
    """Their units do what the files in /etc say: lines of a log arrive in the other cluster."""
    configs = machine.path("/etc/kafka2011")
    settings = (configs / "broker-2.properties").read_text().replace("broker-2", "broker-3")
    target = f"{machine.environ['KAFKA2011_ZK_CONNECT']}/offline"
    (configs / "broker-3.properties").write_text(f"{settings}zk.connect={target}\n")
    (tmp_path / "app.log").write_text("".join(f"line {n}\n" for n in range(20)))
    (configs / "collect.toml").write_text(
        f"[[collect]]\nfiles = ['{tmp_path}/*.log']\ntopic = 'views'\nfollow = true\n"
        f"zookeeper = '{machine.environ['KAFKA2011_ZK_CONNECT']}'\n"
    )
    (configs / "mirror.toml").write_text(
        f"[[mirror]]\nfrom = ['{machine.environ['KAFKA2011_ZK_CONNECT']}']\nto = '{target}'\n"
        "whitelist = 'views'\ngroup = 'mirror'\n"
    )
    machine.run("systemctl start kafka2011-broker@3 kafka2011-collect kafka2011-mirror")
    read = machine.run(f"kafka2011 consume --topic views --from-beginning --max-messages 20 --zookeeper {target}")
    lines = [line for line in read.splitlines() if line.startswith("line ")]  # it may say that it waits for the topic
    assert sorted(lines) == sorted(f"line {n}" for n in range(20))
    machine.run("systemctl stop kafka2011-collect kafka2011-mirror")
    assert (machine.path("/var/lib/kafka2011") / "collect" / "kafka2011" / "collect" / "views").is_dir()


def test_a_gateway(machine: Machine) -> None:
    """Its unit returns once it listens; what a client of today sends is among what brokers have."""
    port = free_port("127.0.0.1")
    directory = machine.path("/var/lib/kafka2011") / "gateway"
    settings = f"zk.connect={machine.environ['KAFKA2011_ZK_CONNECT']}\ndirectory={directory}\nport={port}\n"
    (machine.path("/etc/kafka2011") / "gateway.properties").write_text(settings)
    machine.run("systemctl start kafka2011-gateway")
    producer = idempotent_producer(f"127.0.0.1:{port}")
    producer.produce("views", b"one")
    assert producer.flush(60) == 0
    assert stored(machine) == ["one"]
    assert directory.is_dir()
    machine.run("systemctl stop kafka2011-gateway")


def test_nothing_comes(machine: Machine) -> None:
    """The four commands for whoever gets nothing say what there is."""
    lines = publish(machine, "there", 10)
    consume(machine, 5)
    said = machine.do("I consume, and nothing comes")
    assert "127.0.0.1" in said
    assert said.splitlines()[-1] in lines
