"""The commands, as a person calls them, against real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from kafka2011 import LATEST, LocalCluster, SimpleConsumer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_S = 60
PARTITIONS = 3


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "kafka2011", *map(str, arguments)]


def run(*arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def output(*arguments: object, text: str = "") -> str:
    done = run(*arguments, text=text)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def rows(*arguments: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(output(*arguments, "--json"))
    return found


def produce(topic: str, partition: int, text: str, broker: tuple[str, str]) -> None:
    """Publish lines, and wait until they are flushed, so that they can be read."""
    before = end_of(topic, partition, broker)
    output("produce", topic, "--partition", partition, *broker, text=text)
    lines = text.removesuffix("\n").split("\n")
    end = before + sum(len(line.encode()) + 10 for line in lines)
    eventually(lambda: end_of(topic, partition, broker) == end, what=f"offset {end} of {topic}-{partition}")


def end_of(topic: str, partition: int, broker: tuple[str, str]) -> int:
    host, _, port = broker[1].partition(":")
    with SimpleConsumer(host, int(port)) as consumer:
        return consumer.get_offsets_before(topic, partition, LATEST, 1)[0]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    properties = {"num.partitions": PARTITIONS, "log.flush.interval": 1, "zk.sessiontimeout.ms": 2000}
    with LocalCluster(brokers=2, properties=properties) as running:
        yield running


@pytest.fixture
def zookeeper(cluster: LocalCluster) -> tuple[str, str]:
    return ("--zookeeper", cluster.zk_connect)


@pytest.fixture
def broker(cluster: LocalCluster) -> tuple[str, str]:
    return ("--broker", f"{cluster.brokers[0].host}:{cluster.brokers[0].port}")


def test_topics_are_created_listed_and_described(cluster: LocalCluster, zookeeper: tuple[str, str]) -> None:
    """`topics create` makes a topic where it is told to, and extends it; the others show it."""
    [made] = rows("topics", "create", "created", "--brokers", "1", *zookeeper)
    assert (made["topic"], made["broker"], made["partitions"]) == ("created", 1, PARTITIONS)
    assert {"topic": "created", "brokers": 1, "partitions": PARTITIONS} in rows("topics", "list", *zookeeper)
    assert len(rows("topics", "create", "created", *zookeeper)) == 2
    described = rows("topics", "describe", "created", *zookeeper)
    assert [item["partition"] for item in described] == [f"{b}-{p}" for b in range(2) for p in range(PARTITIONS)]
    assert {(item["earliest"], item["latest"]) for item in described} == {(0, 0)}
    assert described[0]["broker"] == f"127.0.0.1:{cluster.brokers[0].port}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topics", "create", "t", "--brokers", "0,7"), "broker 7 is not registered"),
        (("topics", "create", "a/b"), "topic 'a/b' is not a name"),
        (("topics", "describe", "nowhere"), "topic nowhere is not registered"),
    ],
)
def test_topics_that_cannot_be(arguments: tuple[str, ...], words: str, zookeeper: tuple[str, str]) -> None:
    """Wrong brokers, names and topics fail with one line."""
    done = run(*arguments, *zookeeper)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_lines_come_back_as_they_were_sent(broker: tuple[str, str], tmp_path: Path) -> None:
    """What `produce` reads, from a pipe or a file, `fetch` writes, byte for byte."""
    text = "".join(f"line {number}\n" for number in range(5000)) + "\nümläut \x01\n"
    produce("lines", 1, text, broker)
    assert output("fetch", "lines", "--partition", 1, *broker) == text
    file = tmp_path / "more"
    file.write_text("the end")
    output("produce", "lines", "--partition", 1, "--file", file, *broker)
    fetch = ("fetch", "lines", "--partition", 1, "--fetch-size", 1000, *broker)
    eventually(lambda: output(*fetch) == f"{text}the end\n", what="the arrival of the file")


def test_fetch_from_an_offset(broker: tuple[str, str]) -> None:
    """An offset that one message names leads to the next one."""
    produce("offsets", 0, "one\ntwo\nthree\n", broker)
    first, second = rows("fetch", "offsets", "--max-messages", 2, *broker)
    assert (first["payload"], first["offset"], first["index_in_set"]) == ("one", 0, 0)
    assert second["offset"] == first["next_offset"]
    assert output("fetch", "offsets", "--offset", second["next_offset"], *broker) == "three\n"
    assert output("fetch", "offsets", "--offset", "latest", *broker) == ""
    assert rows("fetch", "offsets", "--offset", "latest", *broker) == []


def test_payloads_that_are_no_text(broker: tuple[str, str]) -> None:
    """In JSON such a payload is in base64; as output it is what it is."""
    sent = subprocess.run(
        command("produce", "binary", "--partition", 0, *broker), input=b"\xff\n", timeout=TIMEOUT_S, check=True
    )
    assert sent.returncode == 0
    eventually(lambda: end_of("binary", 0, broker) == 11, what="the flush")
    [message] = rows("fetch", "binary", *broker)
    assert message["payload_base64"] == "/w=="
    assert "payload" not in message


def test_keys_choose_partitions(broker: tuple[str, str]) -> None:
    """With --key-regex all lines of a key are in one partition, in order."""
    lines = [f"user={number % 10} {number}" for number in range(1000)]
    output("produce", "keyed", "--key-regex", r"^user=(\d+)", *broker, text="\n".join(lines))
    size = sum(len(line) + 10 for line in lines)
    eventually(lambda: sum(end_of("keyed", n, broker) for n in range(PARTITIONS)) == size, what="the flush of all")
    found = [output("fetch", "keyed", "--partition", number, *broker).splitlines() for number in range(PARTITIONS)]
    assert sorted(line for part in found for line in part) == sorted(lines)
    for user in range(10):
        of_user = [[line for line in part if line.startswith(f"user={user} ")] for part in found]
        assert [part for part in of_user if part] == [[line for line in lines if line.startswith(f"user={user} ")]]
    assert len([part for part in found if part]) > 1


@pytest.mark.parametrize("name", ["produce", "fetch", "offsets"])
def test_a_wrong_partition_is_named(name: str, broker: tuple[str, str]) -> None:
    """A partition that the broker does not have is an error, though brokers only hang up."""
    done = run(name, "lines", "--partition", PARTITIONS, *broker, text="lost\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no partition {PARTITIONS} of topic lines" in done.stderr


def test_offsets(broker: tuple[str, str]) -> None:
    """`offsets` shows the end, the beginning, and what was before a time."""
    produce("times", 2, "x\n", broker)
    expected = {"topic": "times", "partition": 2, "offset": 11}
    assert rows("offsets", "times", "--partition", 2, *broker) == [expected]
    assert [row["offset"] for row in rows("offsets", "times", "--partition", 2, "--max-count", 9, *broker)] == [11, 0]
    assert rows("offsets", "times", "--partition", 2, "--time", "earliest", *broker) == [{**expected, "offset": 0}]
    assert rows("offsets", "times", "--partition", 2, "--time", "2001-01-01T00:00:00", *broker) == []


def test_ping(cluster: LocalCluster, zookeeper: tuple[str, str]) -> None:
    """`ping` fails as soon as one broker is silent, and says which."""
    answers = rows("ping", *zookeeper)
    assert [answer["error"] for answer in answers] == [None, None]
    silent = f"127.0.0.1:{cluster.zookeeper.port if cluster.zookeeper else 0}"  # speaks another protocol
    done = run("ping", silent, *zookeeper, "--timeout-ms", 500, "--json")
    assert done.returncode == 1
    assert done.stderr == f"kafka2011: error: no answer from {silent}\n"
    assert [answer["error"] is None for answer in json.loads(done.stdout)] == [False, True, True]


def test_ping_takes_the_port_from_the_environment(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a broker's own environment `ping` needs no argument."""
    monkeypatch.setenv("KAFKA2011_PORT", str(cluster.brokers[1].port))
    [answer] = rows("ping")
    assert answer["broker"] == f"127.0.0.1:{cluster.brokers[1].port}"


def test_registry(cluster: LocalCluster, zookeeper: tuple[str, str]) -> None:
    """`registry` shows every znode, as a tree or as objects."""
    found = {item["path"]: item for item in rows("registry", *zookeeper)}
    port = cluster.brokers[0].port
    assert str(found["/brokers/ids/0"]["data"]).endswith(f":127.0.0.1:{port}")
    assert found["/brokers/ids/0"]["ephemeral"]
    assert not found["/brokers/topics"]["ephemeral"]
    tree = output("registry", *zookeeper)
    assert f":127.0.0.1:{port}  (ephemeral)" in tree
    assert tree.splitlines()[1] == "└── brokers"


def test_an_unreachable_zookeeper_is_one_line() -> None:
    """Without ZooKeeper a command fails in its session timeout, and says where it looked."""
    done = run("registry", "--zookeeper", "127.0.0.1:1")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1


def test_dump_log_of_a_running_broker(cluster: LocalCluster, broker: tuple[str, str]) -> None:
    """`dump-log --verify` agrees with what was sent."""
    produce("dumped", 0, "one\ntwo\n", broker)
    found = rows("dump-log", cluster.brokers[0].log_dir / "dumped-0", "--verify")
    assert [(item["offset"], item["payload_bytes"], item["fault"]) for item in found] == [(0, 3, None), (13, 3, None)]


def test_follow_waits_until_ctrl_c(broker: tuple[str, str]) -> None:
    """`fetch --follow` shows what comes later, and Ctrl-C ends it in silence."""
    with subprocess.Popen(
        command("fetch", "followed", "--follow", *broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        output("produce", "followed", "--partition", 0, *broker, text="later\n")
        assert follower.stdout.readline() == "later\n"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(TIMEOUT_S) == 130
        assert follower.stderr.read().strip() == ""


def test_settings_of_clients_come_from_the_environment(
    broker: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that the environment sets holds for `produce`, which names the line."""
    monkeypatch.setenv("KAFKA2011_MAX_MESSAGE_SIZE", "5")
    done = run("produce", "limited", *broker, text="short\nlonger\n")
    assert done.returncode == 1
    assert "line 2 is longer than max.message.size, 5 bytes" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_in_one_terminal_stops_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    """`cluster` tells where it is, and stops all of it, in order, on Ctrl-C or SIGTERM; logs stay."""
    arguments = ("--brokers", 2, "--zookeeper-port", 0, "--directory", tmp_path, "--json")
    started = command("cluster", *arguments, "--override", "log.flush.interval=1")
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        text = ""
        while not text.endswith("\n}\n"):
            line = running.stdout.readline()
            assert line, running.stderr.read()
            text += line
        found = json.loads(text)
        children = psutil.Process(running.pid).children(recursive=True)
        assert len(children) >= 3
        assert [answer["error"] for answer in rows("ping", "--zookeeper", found["zk.connect"])] == [None, None]
        running.send_signal(number)
        assert running.wait(TIMEOUT_S) == 0
        assert running.stderr.read() == ""
    eventually(lambda: not any(child.is_running() for child in children), what="the end of the processes")
    assert [(tmp_path / f"broker-{n}" / "logs" / ".kafka_cleanshutdown").exists() for n in range(2)] == [True, True]


def test_a_cluster_whose_broker_dies_says_so() -> None:
    """A broker that ends by itself is a failure of the whole, and nothing is left running."""
    with subprocess.Popen(
        command("cluster", "--brokers", 1, "--zookeeper-port", 0),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for line in running.stdout:
            if line.startswith("ready"):
                break
        children = psutil.Process(running.pid).children(recursive=True)
        [broker_process] = [child for child in children if "broker" in child.cmdline()]
        os.kill(broker_process.pid, signal.SIGKILL)
        assert running.wait(TIMEOUT_S) == 1
        assert "broker 0 ended by itself" in running.stderr.read()
    eventually(lambda: not any(child.is_running() for child in children), what="the end of the processes")


def test_a_zookeeper_in_one_terminal_stops_cleanly() -> None:
    """`zookeeper` tells where it listens, serves, and stops on Ctrl-C."""
    with subprocess.Popen(
        command("zookeeper", "--port", 0), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        address = running.stdout.readline().split("listens on ")[1].partition(";")[0]
        [child] = psutil.Process(running.pid).children()
        assert output("registry", "--zookeeper", address).startswith(address)
        running.send_signal(signal.SIGINT)
        assert running.wait(TIMEOUT_S) == 0
        assert running.stderr.read() == ""
    eventually(lambda: not child.is_running(), what="the end of the server")


def test_a_broker_says_why_it_does_not_start(tmp_path: Path) -> None:
    """A broker whose port is taken, or whose directory is no directory, fails with one line naming it."""
    file = tmp_path / "file"
    file.touch()
    alone = ("--override", "enable.zookeeper=false", "--override", "brokerid=0", "--override", "port=0")
    done = run("broker", *alone, "--override", f"log.dir={file}")
    assert done.returncode == 1
    assert str(file) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_group_reads_what_was_produced_to_a_cluster(zookeeper: tuple[str, str]) -> None:
    """`produce --zookeeper` spreads lines over all brokers, `consume` reads each once, `groups` knows how far it is."""
    output("topics", "create", "grouped", *zookeeper)
    lines = [f"user={number % 10} {number}" for number in range(200)]
    options = ("--confirm", "--compress", "snappy", "--key-regex", r"user=(\d+)")
    output("produce", "grouped", *options, *zookeeper, text="\n".join(lines))
    read = ("consume", "--topic", "grouped", "--from-beginning", *zookeeper)
    printed = output(*read, "--group", "readers", "--max-messages", 200, "--timeout-ms", 20_000).splitlines()
    assert sorted(printed) == sorted(lines)
    for user in range(10):
        of_user = [line for line in printed if line.startswith(f"user={user} ")]
        assert of_user == [line for line in lines if line.startswith(f"user={user} ")]
    found = rows("groups", "--group", "readers", *zookeeper)
    assert len(found) == 2 * PARTITIONS
    assert {row["lag_bytes"] for row in found} == {0}
    assert {row["owner"] for row in found} == {None}
    done = run("groups", "--group", "readers", "--verify", *zookeeper)
    assert (done.returncode, "has no members" in done.stderr) == (1, True)


def test_a_throwaway_group_is_removed(zookeeper: tuple[str, str], broker: tuple[str, str]) -> None:
    """Without --group nothing is left in ZooKeeper, and messages can be had with all that is known of them."""
    produce("thrown", 1, "one\n", broker)
    printed = output(
        *("consume", "--whitelist", "thro.n", "--from-beginning", "--formatter", "json"),
        *("--max-messages", 1, "--timeout-ms", 20_000),
        *zookeeper,
    )
    message = json.loads(printed)
    assert (message["topic"], message["broker_id"], message["partition"], message["payload"]) == ("thrown", 0, 1, "one")
    assert "consume-" not in output("registry", *zookeeper)


def test_a_groups_offsets_are_moved_saved_and_restored(
    tmp_path: Path, zookeeper: tuple[str, str], broker: tuple[str, str]
) -> None:
    """`groups reset` moves offsets, `offsets export` and `import` carry them to another group."""
    produce("moved", 0, "one\ntwo\n", broker)
    end = end_of("moved", 0, broker)
    moved = rows("groups", "reset", "--group", "m1", "--topic", "moved", "--to", "latest", *zookeeper)
    assert {"topic": "moved", "partition": "0-0", "offset": end} in moved
    saved = tmp_path / "offsets.json"
    output("offsets", "export", "--group", "m1", "--file", saved, *zookeeper)
    output("offsets", "import", "--group", "m2", "--file", saved, *zookeeper)
    committed = {row["partition"]: row["committed"] for row in rows("groups", "--group", "m2", *zookeeper)}
    assert committed == {f"moved/{row['partition']}": row["offset"] for row in moved}
    [back, *_] = rows("groups", "reset", "--group", "m2", "--topic", "moved", "--to", "earliest", *zookeeper)
    assert back["offset"] == 0
    [then, *_] = rows(
        "groups", "reset", "--group", "m2", "--topic", "moved", "--to", "2011-06-12T10:00:00Z", *zookeeper
    )
    assert then["offset"] == 0  # before everything there is: the beginning


def test_living_members_keep_their_offsets(zookeeper: tuple[str, str], broker: tuple[str, str]) -> None:
    """What a member would write over is refused, and every partition has one owner; Ctrl-C commits and leaves."""
    produce("lived", 0, "one\n", broker)
    reading = subprocess.Popen(
        command("consume", "--topic", "lived", "--group", "living", "--from-beginning", *zookeeper),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert reading.stdout is not None
        assert reading.stdout.readline() == "one\n"
        eventually(
            lambda: run("groups", "--group", "living", "--verify", *zookeeper).returncode == 0,
            what="an owner of each partition",
        )
        refused = run("groups", "reset", "--group", "living", "--topic", "lived", "--to", "earliest", *zookeeper)
        assert (refused.returncode, "has members" in refused.stderr) == (1, True)
        reading.send_signal(signal.SIGINT)
        assert reading.wait(TIMEOUT_S) == 0
    finally:
        reading.kill()
        reading.communicate()
    [committed] = [row["committed"] for row in rows("groups", *zookeeper) if row["partition"] == "lived/0-0"]
    assert committed == end_of("lived", 0, broker)


def test_the_demo_without_faults_delivers_every_line_once(tmp_path: Path) -> None:
    """Ends by itself, accounts for every line in logs and groups, and leaves no process behind."""
    log = tmp_path / "lines"
    log.write_text("".join(f"client-{number % 7} line {number}\n" for number in range(300)))
    options = ("--faults", "none", "--seconds", 2, "--file", log, "--directory", tmp_path / "demo", "--json")
    result = run("demo", *options)
    assert result.returncode == 0, result.stderr
    account = json.loads(result.stdout)
    assert account["is_good"]
    assert [(of["received"], of["repeats"]) for of in account["accounts"]] == [(300, {})] * 3
    left = [
        process.pid for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(process.info["cmdline"])
    ]
    assert left == []
