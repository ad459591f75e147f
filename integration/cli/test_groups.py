"""`consume`, `groups` and a group's offsets."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING

from integration.cli.calling import PARTITIONS, TIMEOUT_S, command, end_of, output, produce, rows, run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


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
            what="an owner for every partition",
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
