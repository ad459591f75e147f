"""`consume`, `groups` and a group's offsets."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, cast

import pytest

from integration.cli.calling import PARTITIONS, TIMEOUT_S, command, end_of, output, produce, rows, run
from kafka2011 import LocalCluster
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


def test_a_group_reads_what_was_produced_to_a_cluster(zookeeper: tuple[str, str]) -> None:
    """`produce --zookeeper` spreads lines over all brokers, `consume` reads each once, `groups` knows how far it is."""
    output("topics", "create", "grouped", *zookeeper)
    lines = [f"user={number % 10} {number}" for number in range(200)]
    options = ("--compress", "snappy", "--key-regex", r"user=(\d+)")
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
    done = run("groups", "reset", "--group", "m1", "--topic", "moved", "--to", "latest", *zookeeper, "--json")
    assert "there was no group m1: now there is" in done.stderr
    moved = json.loads(done.stdout)
    assert {"topic": "moved", "partition": "0-0", "before": None, "offset": end} in moved
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
            what="an owner for every partition",
        )
        refused = run("groups", "reset", "--group", "living", "--topic", "lived", "--to", "earliest", *zookeeper)
        assert (refused.returncode, "has members" in refused.stderr) == (1, True)
        reading.send_signal(signal.SIGINT)
        assert reading.wait(TIMEOUT_S) == 130
    finally:
        reading.kill()
        reading.communicate()
    [committed] = [row["committed"] for row in rows("groups", *zookeeper) if row["partition"] == "lived/0-0"]
    assert committed == end_of("lived", 0, broker)


def lines_of(topic: str, zookeeper: tuple[str, str]) -> list[str]:
    return output("fetch", topic, *zookeeper).splitlines()


def test_consume_reads_the_environment(
    zookeeper: tuple[str, str], broker: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting of the environment holds for `consume`, and --property goes before it."""
    produce("sized", 0, "twelve bytes\n", broker)
    monkeypatch.setenv("KAFKA2011_FETCH_SIZE", "20")
    read = ("consume", "--topic", "sized", "--from-beginning", "--timeout-ms", 20_000, "--max-messages", 1, *zookeeper)
    done = run(*read)
    assert (done.stdout, "and fetch.size is 20" in done.stderr) == ("twelve bytes\n", True)
    done = run(*read, "--property", "fetch.size=100")
    assert (done.stdout, "fetch.size" in done.stderr) == ("twelve bytes\n", False)
    monkeypatch.delenv("KAFKA2011_FETCH_SIZE")
    monkeypatch.setenv("KAFKA2011_GROUPID", "of-the-environment")
    output(*read)
    assert {"group": "of-the-environment", "members": 0, "topics": "sized"} in rows("groups", "list", *zookeeper)


def test_commands_read_the_timeouts_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only asks ZooKeeper waits as long as the environment says."""
    monkeypatch.setenv("KAFKA2011_ZK_CONNECTIONTIMEOUT_MS", "123")
    done = run("groups", "--zookeeper", "127.0.0.1:1")
    assert (done.returncode, "within 123 ms" in done.stderr) == (1, True)


def test_a_group_begins_where_it_is_told(zookeeper: tuple[str, str], broker: tuple[str, str]) -> None:
    """--from moves the group first: to a word, to a time, and for one partition to an offset."""
    produce("begun", 0, "one\ntwo\nthree\n", broker)
    read = ("consume", "--topic", "begun", "--timeout-ms", 20_000, *zookeeper)
    group = ("--group", "beginners", "--max-messages", 3)
    for start in ("earliest", "2011-06-12T10:00Z", "@1307872800000"):
        assert output(*read, *group, "--from", start) == "one\ntwo\nthree\n"
    assert output(*read, "--max-messages", 2, "--from", 13, "--partition", "0-0") == "two\nthree\n"
    done = run(*read, "--from", 14, "--partition", "0-0", "--max-messages", 1)
    assert done.returncode == 1


def test_the_last_messages(zookeeper: tuple[str, str], broker: tuple[str, str]) -> None:
    """--last shows so many of each partition, and goes on with what comes then."""
    produce("recent", 0, "".join(f"{number}\n" for number in range(1000)), broker)
    produce("recent", 1, "alone\n", broker)
    end = end_of("recent", 0, broker)
    read = ("consume", "--topic", "recent", *zookeeper)
    last = output(*read, "--last", 2, "-f", r"%b-%p %n %s\n", "--timeout-ms", 300).splitlines()
    assert last == [f"0-0 {end - 13} 998", f"0-0 {end} 999", f"0-1 {end_of('recent', 1, broker)} alone"]
    with subprocess.Popen(
        command(*read, "--last", 1, "--partition", "0-1", "--max-messages", 2), stdout=subprocess.PIPE, text=True
    ) as reading:
        assert reading.stdout is not None
        assert reading.stdout.readline() == "alone\n"
        output("produce", "recent", "--partition", 1, *broker, text="later\n")
        assert reading.communicate(timeout=TIMEOUT_S)[0] == "later\n"
    assert "consume-" not in output("registry", *zookeeper)


def test_the_last_messages_over_segments(tmp_path: Path) -> None:
    """Where the newest segment holds too few, those before it are read."""
    small = {"log.file.size": 100, "log.flush.interval": 1}
    with LocalCluster(brokers=1, directory=tmp_path, properties=small) as cluster:
        zookeeper = ("--zookeeper", cluster.zk_connect)
        for number in range(10):
            output(
                "produce", "rolled", "--compress", "gzip" if number % 2 else "none", *zookeeper, text=f"{number}\n" * 3
            )
        eventually(lambda: len(lines_of("rolled", zookeeper)) == 30, what="the flush of all")
        assert len(list(tmp_path.glob("broker-0/logs/rolled-0/*.kafka"))) > 2
        everything = lines_of("rolled", zookeeper)
        for count in (1, 4, 17, 100):
            read = ("consume", "--topic", "rolled", "--last", count, "--timeout-ms", 1, *zookeeper)
            assert output(*read).splitlines() == everything[-count:]


def test_a_topic_that_nobody_knows_is_said(zookeeper: tuple[str, str]) -> None:
    """Waiting for a topic may be what one wants, or a slip of the pen."""
    done = run("consume", "--topic", "typo", "--timeout-ms", 1, *zookeeper)
    assert done.returncode == 0
    assert "warning: nobody knows topic typo" in done.stderr
    done = run("consume", "--whitelist", "typo.*", "--timeout-ms", 1, *zookeeper)
    assert "no topic matches Whitelist('typo.*')" in done.stderr


@pytest.mark.parametrize("options", [(), ("--group", "headed"), ("--last", "100000")])
def test_a_reader_that_goes_away_is_no_warning(
    options: tuple[str, ...], zookeeper: tuple[str, str], broker: tuple[str, str]
) -> None:
    """`consume | head` says nothing, and ends as SIGPIPE would."""
    name = f"headed{len(options)}{options[0].strip('-') if options else ''}"
    produce(name, 0, "x" * 1000 + "\n" + ("y" * 1000 + "\n") * 1000, broker)
    start = () if "--last" in options else ("--from-beginning",)
    with subprocess.Popen(
        command("consume", "--topic", name, *start, *options, *zookeeper),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        reading.stdout.read(1)
        reading.stdout.close()
        assert reading.wait(TIMEOUT_S) == 141
        assert reading.stderr.read() == b""


@pytest.mark.parametrize("options", [(), ("--group", "quiet"), ("--partition", "0-0")])
def test_a_reader_that_goes_away_ends_a_command_that_waits(
    options: tuple[str, ...], zookeeper: tuple[str, str], broker: tuple[str, str]
) -> None:
    """`consume | head -1` on a quiet topic ends without another message."""
    name = f"quiet{len(options)}{options[0].strip('-') if options else ''}"
    produce(name, 0, "only\n", broker)
    with subprocess.Popen(
        command("consume", "--topic", name, "--from-beginning", *options, *zookeeper),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline() == b"only\n"
        reading.stdout.close()
        assert reading.wait(TIMEOUT_S) == 141
        assert reading.stderr.read() == b""


def test_an_offset_must_be_one(zookeeper: tuple[str, str], broker: tuple[str, str], tmp_path: Path) -> None:
    """Offsets that lie in no partition, or in the middle of a message, are refused, and nothing is written."""
    produce("checked", 0, "one\ntwo\n", broker)
    reset = ("groups", "reset", "--group", "checkers", "--topic", "checked", *zookeeper, "--to")
    done = run(*reset, "1795281074000")
    assert done.returncode == 1
    assert "offset 1795281074000 is not in checked/0-0, which holds 0 to 26" in done.stderr
    assert done.stderr.endswith("(and 2 more) (a time in ms is written @1795281074000)\n")
    header, *faults = done.stdout.splitlines()
    assert header.split() == ["partition", "fault"]
    assert len(faults) == PARTITIONS
    assert "checked/0-2  offset 1795281074000 is not in checked/0-2, which holds 0 to 0" in faults
    assert "no message of checked/0-0 starts at offset 7" in run(*reset, 7, "--partition", "0-0").stderr
    assert "has no partition 9-9" in run(*reset, 0, "--partition", "9-9").stderr
    done = run(*reset, "latest", "--dry-run", "--json")
    assert "there was no group checkers: it would be made" in done.stderr
    assert json.loads(done.stdout)[0] == {
        "topic": "checked",
        "partition": "0-0",
        "before": None,
        "offset": 26,
    }
    assert "checkers" not in {row["group"] for row in rows("groups", "list", *zookeeper)}
    done = run(*reset, 13, "--partition", "0-0", "--json")
    assert json.loads(done.stdout) == [{"topic": "checked", "partition": "0-0", "before": None, "offset": 13}]
    assert "there was no group checkers: now there is" in done.stderr
    saved = tmp_path / "offsets.json"
    for offsets, words in (
        ({"checked": {"9-0": 0}}, "checked/9-0 is not registered"),
        ({"typo": {"0-0": 0}}, "typo/0-0 is not registered"),
        ({"checked": {"0-0": 27}}, "offset 27 is not in checked/0-0"),
        ({"checked": {"0-0": 7}}, "no message of checked/0-0 starts at offset 7"),
    ):
        saved.write_text(json.dumps(offsets))
        imported = ("offsets", "import", "--group", "checkers", "--file", saved, *zookeeper)
        done = run(*imported)
        assert (done.returncode, words in done.stderr) == (1, True)
        assert output(*imported, "--force", "--dry-run") == "1 offset would be written for group checkers\n"
    assert json.loads(output("offsets", "export", "--group", "checkers", *zookeeper)) == {"checked": {"0-0": 13}}


@pytest.mark.parametrize(
    "reading", [("fetch", "checked-too", "--offset"), ("consume", "--topic", "checked-too", "--from")]
)
def test_reading_begins_where_a_message_does(
    zookeeper: tuple[str, str], broker: tuple[str, str], reading: tuple[str, ...]
) -> None:
    """An offset in the middle of one is called that, not a corrupt message."""
    produce("checked-too", 0, "one\ntwo\n", broker)
    done = run(*reading, 7, "--partition", "0-0", *zookeeper)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no message of checked-too/0-0 starts at offset 7" in done.stderr


def begin(group: str, topic: str, where: str, zookeeper: tuple[str, str]) -> None:
    """Make a group with an offset of partition 0-0."""
    run("groups", "reset", "--group", group, "--topic", topic, "--to", where, "--partition", "0-0", *zookeeper)


def test_a_group_is_moved_by_some_messages(zookeeper: tuple[str, str], broker: tuple[str, str]) -> None:
    """Forth and back, no further than the partition goes; what it would be is shown first, and where it was."""
    produce("shifted", 0, "one\ntwo\nthree\n", broker)
    of_group = ("groups", "reset", "--group", "shifters", "--topic", "shifted", *zookeeper)
    refused = run(*of_group, "--shift-by", 1)
    assert "group shifters has no offset of shifted to move from" in refused.stderr
    begin("shifters", "shifted", "earliest", zookeeper)
    starts = [0, 13, 26, 41]

    def shift(messages: int, *options: str) -> tuple[int, int]:
        [row] = rows(*of_group, "--shift-by", messages, *options)
        assert (row["topic"], row["partition"]) == ("shifted", "0-0")
        return starts.index(cast("int", row["before"])), starts.index(cast("int", row["offset"]))

    assert shift(2, "--dry-run") == (0, 2)
    assert shift(2) == (0, 2)
    assert shift(-1) == (2, 1)
    assert shift(9) == (1, 3)
    assert shift(-9) == (3, 0)
    assert "give one of --to and --shift-by" in run(*of_group, "--shift-by", 1, "--to", "latest").stderr


def test_a_group_is_deleted(zookeeper: tuple[str, str], broker: tuple[str, str]) -> None:
    """With its offsets, which are shown; one that is not there is an error."""
    produce("deleted", 0, "one\n", broker)
    begin("going", "deleted", "latest", zookeeper)
    delete = ("groups", "delete", "--group", "going", *zookeeper)
    held = [{"topic": "deleted", "partition": "0-0", "offset": 13}]
    assert rows(*delete, "--dry-run") == held
    assert rows(*delete) == held
    assert "there is no group going" in run(*delete).stderr


def test_groups_are_watched(zookeeper: tuple[str, str], broker: tuple[str, str]) -> None:
    """With the time, the rates of the log and the group, and the lag in seconds."""
    produce("watched", 0, "one\n", broker)
    begin("watchers", "watched", "latest", zookeeper)
    with subprocess.Popen(
        command("groups", "--group", "watchers", "--watch", *zookeeper), stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        printed = ""
        while "watched/0-0" not in printed:
            printed += watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        printed += watching.stdout.read()
    for word in (", every 2 s", "lag bytes", "appended bytes per s", "committed bytes per s", "lag s"):
        assert word in printed
