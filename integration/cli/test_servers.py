"""Commands that run servers: a cluster, a ZooKeeper, a broker, the demo."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from integration.cli.calling import TIMEOUT_S, command, output, rows, run
from kafka2011 import LocalCluster, Producer
from kafka2011.cli.restarts import MOST_RESTARTS
from tests.support.waiting import eventually
from zk.ports import free_port


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
        assert running.wait(TIMEOUT_S) == (130 if number == signal.SIGINT else 0)
        assert running.stderr.read().strip() == ""
    eventually(lambda: not any(child.is_running() for child in children), what="the end of all processes")
    assert [(tmp_path / f"broker-{n}" / "logs" / ".kafka_cleanshutdown").exists() for n in range(2)] == [True, True]


def _brokers(running: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(running.pid).children(recursive=True)
    return [child for child in children if child.is_running() and _is_broker(child)]


def _is_broker(process: psutil.Process) -> bool:
    try:
        return "broker" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def test_a_cluster_starts_again_a_broker_that_dies_but_not_for_ever() -> None:
    """One that ends again and again is a failure of the whole, and nothing is left running."""
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
        killed: set[int] = set()

        def has_ended() -> bool:
            for process in _brokers(running):
                if process.pid not in killed:
                    children.append(process)
                    killed.add(process.pid)
                    os.kill(process.pid, signal.SIGKILL)
            return running.poll() is not None

        eventually(has_ended, what="the end of a cluster whose broker ends all the time")
        assert running.returncode == 1
        said = running.stderr.read()
        assert said.count("broker 0 has crashed, and is restarted") == len(killed) - 1 == MOST_RESTARTS
        assert "broker 0 has crashed repeatedly" in said
    eventually(lambda: not any(child.is_running() for child in children), what="the end of all processes")


def test_a_cluster_with_replicas_outlives_its_leader() -> None:
    """Messages that were confirmed are there when its leader was killed, and it is started again."""
    started = command("cluster", "--brokers", 1, "--replicas", 2, "--zookeeper-port", 0, "--port", 0, "--json")
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        text = ""
        while not text.endswith("\n}\n"):
            text += running.stdout.readline()
        found = json.loads(text)
        zk_connect = found["zk.connect"]
        with Producer({"zk.connect": zk_connect, "confirm": "true"}) as producer:
            producer.send("views", b"one").result()
            [leader] = [
                process
                for process in _brokers(running)
                if any(str(each.laddr.port) == _port_of_broker(zk_connect) for each in process.net_connections())
            ]
            leader.kill()
            producer.send("views", b"two").result()
        eventually(lambda: len(_brokers(running)) == 2, what="the replica that was started again")
        [status] = [row for row in rows("cluster", "--status", "--directory", found["directory"]) if row["restarts"]]
        assert (status["part"], status["restarts"]) == ("replica a of broker 0", 1)
        eventually(
            lambda: [row["in_sync"] for row in rows("replicas", "--zookeeper", zk_connect)] == [True, True],
            what="both in sync",
        )
        read = output("consume", "views", "--from-beginning", "--max-messages", 2, "--zookeeper", zk_connect)
        assert read.splitlines() == ["one", "two"]
        running.send_signal(signal.SIGTERM)
        assert running.wait(TIMEOUT_S) == 0


def _port_of_broker(zk_connect: str) -> str:
    [row] = rows("ping", "--zookeeper", zk_connect)
    return str(row["address"]).rpartition(":")[2]


def test_a_cluster_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ready when the command returns: a topic is made on all brokers at once; `--stop` ends every process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    arguments = ("cluster", "--brokers", 3, "--zookeeper-port", 0, "--port", 0)
    running = json.loads(output(*arguments, "--background", "--json"))
    try:
        where = ("--zookeeper", running["zk.connect"])
        assert output("groups", *where) == "no groups\n"
        assert output("topics", "list", *where) == "no topics\n"
        assert len(rows("topics", "create", "views", *where)) == 3
        output("produce", "views", *where, text="one\ntwo\n")
        group = ("--group", "reports", "--from-beginning", "--max-messages", 2)
        assert output("consume", "--topic", "views", *where, *group) == "one\ntwo\n"
        assert {row["group"] for row in rows("groups", *where)} == {"reports"}
        again = run(*arguments, "--background")
        assert (again.returncode, again.stdout) == (1, "")
        assert f"a cluster runs in the background of {tmp_path}/kafka2011 already" in again.stderr
        states = {row["part"]: (row["state"], row["restarts"]) for row in rows("cluster", "--status")}
        assert states == dict.fromkeys(("broker 0", "broker 1", "broker 2", "ZooKeeper"), ("running", 0))
        wrong = run("cluster", "--stop", "--brokers", 2)
        assert wrong.returncode == 2
        process = psutil.Process(running["pid"])
        children = process.children()
        assert len(children) == 4
    finally:
        assert output("cluster", "--stop") == f"stopped the cluster of {running['zk.connect']}\n"
    # Where nobody waits for orphans they stay as zombies.
    left = [each for each in [process, *children] if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    assert left == []
    assert not Path(running["directory"]).exists()
    assert "no cluster runs in the background" in run("cluster", "--stop").stderr


def test_a_cluster_in_the_background_that_does_not_start(tmp_path: Path) -> None:
    """The command fails with its last words, and says where the others are; logs are in the directory given."""
    (tmp_path / "broker-0").touch()
    done = run("cluster", "--background", "--directory", tmp_path, "--zookeeper-port", 0, "--port", 0)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the cluster ended with status 1, see {tmp_path}/cluster.log: kafka2011: error: " in done.stderr


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
        assert running.wait(TIMEOUT_S) == 130
        assert running.stderr.read().strip() == ""
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


def test_the_demo_without_faults_delivers_every_line_once(tmp_path: Path) -> None:
    """Ends by itself, accounts for every line in the logs and in the group, and leaves no process behind."""
    log = tmp_path / "lines"
    log.write_text("".join(f"client-{number % 7} line {number}\n" for number in range(300)))
    options = ("--faults", "none", "--seconds", 2, "--file", log, "--directory", tmp_path / "demo", "--json")
    result = run("demo", *options)
    assert result.returncode == 0, result.stderr
    account = json.loads(result.stdout)
    assert account["is_good"]
    assert [(of["received"], of["repeats"]) for of in account["accounts"]] == [(300, {})] * 2
    left = [
        process.pid for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(process.info["cmdline"])
    ]
    assert left == []


def test_the_demo_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with one line that says so, and cleans up after itself."""
    log = tmp_path / "lines"
    log.write_text("".join(f"2026-11-21 status installed {number}\n" for number in range(300)))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    result = run("demo", "--faults", "none", "--seconds", 2, "--file", log)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "OK: 300 lines arrived in order, in the logs and in the group"
    assert list(temporary.iterdir()) == []


def test_a_cluster_takes_the_usual_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 0 takes the port that others expect it at, and the next one another where its own is taken."""
    while True:
        first_port = free_port("127.0.0.1")
        try:
            taken = socket.create_server(("127.0.0.1", first_port + 1))
        except OSError:
            continue
        break
    with taken, LocalCluster(brokers=2, first_port=first_port) as cluster:
        assert cluster.brokers[0].port == first_port
        assert cluster.brokers[1].port not in {first_port, first_port + 1}
        monkeypatch.setenv("KAFKA2011_PORT", str(first_port))
        assert [answer["error"] for answer in rows("ping")] == [None]
