"""`produce`, `fetch`, `offsets` and `dump-log` against a real broker."""

from __future__ import annotations

import gzip
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import PARTITIONS, TIMEOUT_S, command, end_of, output, produce, rows, run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011 import LocalCluster


def test_lines_come_back_as_they_were_sent(broker: tuple[str, str], tmp_path: Path) -> None:
    """What `produce` reads, from a pipe or a file, `fetch` writes, byte for byte."""
    text = "".join(f"line {number}\n" for number in range(5000)) + "\nümläut \x01\n"
    produce("lines", 1, text, broker)
    assert output("fetch", "lines", "--partition", 1, *broker) == text
    file = tmp_path / "more"
    file.write_text("the end")
    output("produce", "lines", "--partition", 1, "--file", file, *broker)
    fetch = ("fetch", "lines", "--partition", 1, "--fetch-size", 1000, *broker)
    eventually(lambda: output(*fetch) == f"{text}the end\n", what="the file's line")
    file.write_bytes(gzip.compress(b"unpacked\n"))
    output("produce", "lines", "--partition", 1, "--file", file, *broker)
    eventually(lambda: output(*fetch) == f"{text}the end\nunpacked\n", what="the line of a compressed file")


def test_a_file_without_text_is_refused(broker: tuple[str, str], tmp_path: Path) -> None:
    """Nothing of it is sent, unless a delimiter says that its pieces are the messages."""
    file = tmp_path / "image.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    done = run("produce", "image", "--partition", 0, "--file", file, *broker)
    assert done.returncode == 1
    assert f"{file} holds no lines of text" in done.stderr
    output("produce", "image", "--partition", 0, "--delimiter", "\\0", "--file", file, *broker)


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
    expected = {"topic": "times", "broker": None, "partition": 2, "offset": 11}
    assert rows("offsets", "times", "--partition", 2, *broker) == [expected]
    assert [row["offset"] for row in rows("offsets", "times", "--partition", 2, "--max-count", 9, *broker)] == [11, 0]
    assert rows("offsets", "times", "--partition", 2, "--time", "earliest", *broker) == [{**expected, "offset": 0}]
    assert rows("offsets", "times", "--partition", 2, "--time", "2001-01-01T00:00:00Z", *broker) == []


def test_partitions_are_found_through_zookeeper(zookeeper: tuple[str, str]) -> None:
    """`produce`, `fetch` and `offsets` need no address: they find all brokers of a topic."""
    output("topics", "create", "found", *zookeeper)
    lines = [f"{number}" for number in range(100)]
    output("produce", "found", "--key-regex", ".*", *zookeeper, text="\n".join(lines))
    ends = {(row["broker"], row["partition"]): row["offset"] for row in rows("offsets", "found", *zookeeper)}
    assert list(ends) == [(broker_id, number) for broker_id in range(2) for number in range(PARTITIONS)]
    eventually(lambda: len(output("fetch", "found", *zookeeper).splitlines()) == 100, what="the flush of all")
    found = rows("fetch", "found", *zookeeper)
    assert sorted(str(message["payload"]) for message in found) == sorted(lines)
    assert {message["broker_id"] for message in found} == {0, 1}
    of_one = rows("fetch", "found", "--partition", "1-0", *zookeeper)
    assert of_one == [message for message in found if (message["broker_id"], message["partition"]) == (1, 0)]
    printed = output("fetch", "found", "--partition", "1-0", "-f", r"%t/%b-%p@%o %S:%s\n", *zookeeper).splitlines()
    assert printed == [
        f"found/1-0@{message['offset']} {len(str(message['payload']))}:{message['payload']}" for message in of_one
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--partition", "7"), "topic found2 has no partition 7; there are 0-0, 0-1, 0-2, 1-0, 1-1, 1-2"),
        (("--partition", "1"), "topic found2 has more than one partition 1: give one of 0-1, 1-1"),
        (("--offset", "0"), "--offset 0 belongs to one partition"),
        (("--broker", "127.0.0.1:1"), "--broker and --zookeeper exclude one another"),
    ],
)
def test_partitions_that_are_not_clear(arguments: tuple[str, ...], words: str, zookeeper: tuple[str, str]) -> None:
    """Through ZooKeeper a partition is named with its broker, where there are more."""
    output("topics", "create", "found2", *zookeeper)
    done = run("fetch", "found2", *arguments, *zookeeper)
    assert done.returncode in {1, 2}
    assert words in done.stderr


@pytest.mark.parametrize("name", ["fetch", "offsets"])
def test_a_topic_that_nobody_knows(name: str, zookeeper: tuple[str, str], broker: tuple[str, str]) -> None:
    """A slip of the pen is an error where ZooKeeper is asked, and a warning where one broker is."""
    done = run(name, "typo", *zookeeper)
    assert (done.returncode, done.stdout) == (1, "")
    assert "topic typo is not registered in ZooKeeper" in done.stderr
    done = run(name, "typo", *broker)
    assert done.returncode == 0
    assert "topic typo has no messages yet" in done.stderr


@pytest.mark.parametrize("text", ["x\n", ""])
def test_what_is_no_broker_takes_no_messages(text: str, cluster: LocalCluster) -> None:
    """`produce` to ZooKeeper's port, or to nobody, fails, with and without lines."""
    assert cluster.zookeeper is not None
    for port in (cluster.zookeeper.port, 1):
        done = run("produce", "views", "--broker", f"127.0.0.1:{port}", text=text)
        assert done.returncode == 1
        assert f"127.0.0.1:{port} does not answer as a broker does" in done.stderr


@pytest.mark.parametrize("options", [(), ("--key-regex", ".*")])
def test_a_set_that_the_broker_drops_is_a_failure(options: tuple[str, ...], broker: tuple[str, str]) -> None:
    """A line that is within our limit but not within the broker's is dropped there, and `produce` says so."""
    line = "x" * 1_500_000
    done = run("produce", "dropped", *broker, *options, "--property", "max.message.size=2000000", text=f"{line}\n")
    assert done.returncode == 1
    assert "refuse" in done.stderr


def test_a_set_that_a_cluster_drops_is_a_failure(zookeeper: tuple[str, str]) -> None:
    """Through ZooKeeper everything is confirmed."""
    line = "x" * 1_500_000
    done = run("produce", "dropped", *zookeeper, "--property", "max.message.size=2000000", text=f"{line}\n")
    assert done.returncode == 1
    assert "1 message not sent" in done.stderr


def test_nothing_to_send_to_nobody_is_an_error(cluster: LocalCluster) -> None:
    """Where no broker is registered, `produce` of an empty input fails too."""
    done = run("produce", "views", "--zookeeper", f"{cluster.zk_connect}/nobody")
    assert done.returncode == 1
    assert "no broker is registered" in done.stderr


def test_long_lines_are_left_out_when_told_so(broker: tuple[str, str]) -> None:
    """--skip-too-long sends the others, and names those it leaves out."""
    limit = ("--property", "max.message.size=5")
    done = run("produce", "skipped", "--partition", 0, "--skip-too-long", *limit, *broker, text="one\nlonger\ntwo\n")
    assert done.returncode == 0
    assert "line 2 is left out" in done.stderr
    eventually(lambda: output("fetch", "skipped", *broker) == "one\ntwo\n", what="the other lines")


def test_another_delimiter(broker: tuple[str, str]) -> None:
    """What ends a message can be chosen, on both sides."""
    output("produce", "delimited", "--partition", 0, "-D", r"\0", *broker, text="one\nline\0two\0")
    eventually(lambda: output("fetch", "delimited", "-D", "--", *broker) == "one\nline--two--", what="both messages")


def test_dump_log_of_a_running_broker(cluster: LocalCluster, broker: tuple[str, str]) -> None:
    """`dump-log --verify` agrees with what was sent."""
    produce("dumped", 0, "one\ntwo\n", broker)
    found = rows("dump-log", cluster.brokers[0].log_dir / "dumped-0", "--verify")
    assert [(item["offset"], item["payload_bytes"], item["fault"]) for item in found] == [(0, 3, None), (13, 3, None)]


def test_follow_waits_until_ctrl_c(broker: tuple[str, str]) -> None:
    """`fetch --follow` shows what comes later, and Ctrl-C ends it in silence."""
    output("produce", "followed", "--partition", 0, *broker, text="before\n")
    with subprocess.Popen(
        command("fetch", "followed", "--follow", *broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert follower.stdout.readline() == "before\n"
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
    assert "line 2 is longer than max.message.size, 5 bytes; 1 line before it was sent" in done.stderr
