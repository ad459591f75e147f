"""The process that ends a ZooKeeper session when the one that has it dies, on a real ZooKeeper."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafka2011.certificates import Authority
from tests.support.processes import gone
from tests.support.sessions import expire_session
from tests.support.waiting import eventually
from zk import watchdog_exec
from zk.connecting import connect
from zk.local_zookeeper import LocalZooKeeper, ServerTls
from zk.nodes import Nodes
from zk.watchdog import SessionWatchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zk.client import ZkClient

SESSION_MS = 30_000
SOON_S = 15.0
"""Half of what the session would last. What is waited for takes a tenth of a second on an idle machine."""

HOLDER = """
import json, os, sys, time
from zk.connecting import connect
from zk.nodes import Nodes
from zk.watchdog import SessionWatchdog
zk_connect, path = sys.argv[1:]
client = connect(zk_connect, 30000, 20000)
Nodes(client).create_with_parents(path, b"", ephemeral=True)
watchdog = SessionWatchdog(client)
print(json.dumps([watchdog.pid, client.session_timeout_ms]), flush=True)
for line in sys.stdin:
    if line.startswith("beat"):
        watchdog.beat(int(line.split()[1]))
        print("beaten", flush=True)
    elif line == "fork\\n":
        pid = os.fork()
        if not pid:
            time.sleep(600)
            os._exit(0)
        print(pid, flush=True)
    else:
        break
client.shutdown()
watchdog.close()
"""
MEMBER = """
import json, sys
from kafka2011.consumer.connector import ConsumerConnector
consumer = ConsumerConnector(json.loads(sys.argv[1]))
consumer.create_message_streams({"views": 1})
print(json.dumps([consumer._watchdog.pid, consumer._client.session_timeout_ms]), flush=True)
sys.stdin.read()
consumer.shutdown()
"""

FIRST_PROCESS = """
import os, subprocess, sys, time
program, said = sys.argv[1:]
watchdog = subprocess.Popen([sys.executable, "-I", "-S", program, str(os.getpid())], stdin=subprocess.PIPE)
watchdog.stdin.write(b'{"hosts": [["127.0.0.1", 1]], "session_id": 1, "password": "", "timeout_ms": 9, "tls": null}\\n')
watchdog.stdin.write(b"beat 200\\n")
watchdog.stdin.flush()
deadline_s = time.monotonic() + 30
while not os.stat(said).st_size and time.monotonic() < deadline_s:
    time.sleep(0.01)
status = watchdog.poll()
watchdog.stdin.write(b"done\\n")
watchdog.stdin.close()
print(os.getpid(), status, watchdog.wait(), flush=True)
"""


class Holder(NamedTuple):
    """A process that holds an ephemeral node, and its watchdog's id."""

    process: subprocess.Popen[str]
    watchdog_pid: int

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def hold() -> Iterator[Callable[..., Holder]]:
    """Start programs that print their watchdog's id and the session's timeout."""
    with ExitStack() as stack:

        def start(program: str, *arguments: str, session_ms: int = SESSION_MS) -> Holder:
            process = subprocess.Popen(
                [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            watchdog_pid, granted_ms = json.loads(process.stdout.readline())
            stack.callback(lambda: eventually(lambda: gone(watchdog_pid), what="the watchdog's end"))
            assert granted_ms == session_ms
            return Holder(process, watchdog_pid)

        yield start


def await_absence(client: ZkClient, path: str) -> None:
    eventually(lambda: not Nodes(client).exists(path), SOON_S, what=f"the end of {path}")


def test_the_nodes_of_a_killed_process_are_gone_long_before_its_session_times_out(
    client: ZkClient, zk_connect: str, hold: Callable[..., Holder]
) -> None:
    """And so is the process that has seen to it."""
    holder = hold(HOLDER, zk_connect, "/held")
    assert Nodes(client).exists("/held")
    holder.process.kill()
    await_absence(client, "/held")
    eventually(lambda: gone(holder.watchdog_pid), what="the watchdog's end")


def test_a_killed_member_gives_its_place_up_at_once(
    client: ZkClient, zk_connect: str, hold: Callable[..., Holder]
) -> None:
    settings = {
        "zk.connect": zk_connect,
        "groupid": "g",
        "consumerid": "m",
        "zk.sessiontimeout.ms": SESSION_MS,
        "session.watchdog": True,
    }
    holder = hold(MEMBER, json.dumps(settings))
    assert Nodes(client).exists("/consumers/g/ids/g_m")
    holder.process.send_signal(signal.SIGKILL)
    await_absence(client, "/consumers/g/ids/g_m")


def test_a_forked_child_does_not_hold_the_pipe_open(
    client: ZkClient, zk_connect: str, hold: Callable[..., Holder]
) -> None:
    holder = hold(HOLDER, zk_connect, "/held")
    holder.say("fork")
    child_pid = int(holder.hear())
    try:
        holder.process.kill()
        await_absence(client, "/held")
        assert not gone(child_pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child_pid, signal.SIGKILL)


def test_a_process_that_hangs_is_killed_if_it_wants_that_and_its_session_ends(
    client: ZkClient, zk_connect: str, hold: Callable[..., Holder]
) -> None:
    """Before its session times out. Each beat puts it off, and nobody is killed who does not want it any more."""
    holder, other = hold(HOLDER, zk_connect, "/held"), hold(HOLDER, zk_connect, "/other")
    for within_ms in (300_000, 1000):
        holder.say(f"beat {within_ms}")
        assert holder.hear() == "beaten\n"
    for within_ms in (1000, 0):
        other.say(f"beat {within_ms}")
        assert other.hear() == "beaten\n"
    for each in (holder, other):
        each.process.send_signal(signal.SIGSTOP)
    await_absence(client, "/held")
    assert holder.process.wait(30) == -signal.SIGKILL
    assert other.process.poll() is None
    assert Nodes(client).exists("/other")
    other.process.send_signal(signal.SIGCONT)
    other.say("end")
    assert other.process.wait(30) == 0


def test_a_session_goes_on_with_a_process_that_cannot_be_killed(tmp_path: Path) -> None:
    """As the first one of a container: it would go on believing in its session, beside whoever comes after it."""
    alone = ("unshare", "--pid", "--fork", "--mount-proc", *(() if os.geteuid() == 0 else ("--map-root-user",)))
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a process cannot be the first one of a namespace here")
    said = tmp_path / "said"
    with said.open("wb") as errors:
        done = subprocess.run(
            [*alone, sys.executable, "-c", FIRST_PROCESS, str(watchdog_exec.__file__), str(said)],
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=60,
            check=True,
            text=True,
        )
    assert done.stdout == "1 None 0\n"
    assert said.read_text() == "process 1 cannot be killed by its watchdog: it has hung for 0.2 s\n"


def test_a_process_that_lives_on_is_not_harmed(client: ZkClient, new_client: Callable[[], ZkClient]) -> None:
    """Not by the death of a forked child, nor by that of its watchdog, nor by any end of a watch."""
    Nodes(client).create_with_parents("/held", b"", ephemeral=True)
    session_id = client.session_id
    with SessionWatchdog(client) as watchdog:
        child_pid = os.fork()
        if not child_pid:
            os._exit(0)
        os.waitpid(child_pid, 0)
        other = new_client()
        assert Nodes(other).exists("/held")
        assert not gone(watchdog.pid)
    assert gone(watchdog.pid)
    with SessionWatchdog(client) as watchdog:
        os.kill(watchdog.pid, signal.SIGKILL)
        eventually(lambda: gone(watchdog.pid))
        Nodes(client).sync()
    deadline_s = time.monotonic() + client.session_timeout_ms / 1000
    while time.monotonic() < deadline_s:
        assert Nodes(other).exists("/held")
        time.sleep(0.1)
    assert client.session_id == session_id


def test_an_orderly_end_leaves_nothing(client: ZkClient, zk_connect: str, hold: Callable[..., Holder]) -> None:
    holder = hold(HOLDER, zk_connect, "/held")
    holder.say("end")
    assert holder.process.wait(30) == 0
    assert gone(holder.watchdog_pid)
    assert not Nodes(client).exists("/held")


def test_the_session_that_follows_is_watched_too(client: ZkClient, new_client: Callable[[], ZkClient]) -> None:
    """The watchdog ends what it was told of last: the pipe is broken here without a death."""
    with SessionWatchdog(client) as watchdog:
        first = client.session_id
        expire_session(client)
        eventually(lambda: client.session_id not in {None, first}, what="another session")
        second = client.session_id
        Nodes(client).create_with_parents("/held", b"", ephemeral=True)
        eventually(lambda: str(second).encode() in (watchdog.told or b""), what="the news of it")
        with Path("/dev/null").open("wb") as nothing:
            os.dup2(nothing.fileno(), watchdog.pipe_fd, inheritable=False)
        await_absence(new_client(), "/held")
        eventually(lambda: client.session_id not in {None, second}, what="a third session")


def test_a_watchdog_whose_zookeeper_is_gone_ends_with_the_session(
    own_zookeeper: LocalZooKeeper, hold: Callable[..., Holder]
) -> None:
    program = HOLDER.replace("30000", "2000")
    holder = hold(program, own_zookeeper.connect_string, "/held", session_ms=2000)
    own_zookeeper.kill()
    holder.process.kill()
    eventually(lambda: gone(holder.watchdog_pid), what="the watchdog's end")


def test_a_session_behind_tls_is_ended_too(tmp_path: Path, hold: Callable[..., Holder]) -> None:
    authority = Authority(tmp_path / "authority")
    issued = authority.issue("zookeeper", ["127.0.0.1"])
    security = tmp_path / "security.toml"
    security.touch(0o600)
    security.write_text(f'[zookeeper]\ntls = true\nca = "{authority.ca}"\n')
    with LocalZooKeeper(tls=ServerTls(issued.key_and_certificate, authority.ca)) as server:
        address = f"{server.connect_string}/tls?security={security}"
        with connect(address, 2000, 20_000) as client:
            holder = hold(HOLDER, address, "/held")
            assert Nodes(client).exists("/held")
            holder.process.kill()
            await_absence(client, "/held")
