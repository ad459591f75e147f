"""Three replicas of a broker, of which one leads and is lost, as the model runs them over the shipped rules."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kafka2011.lab import paper
from scripts.slow_motion.recording import Branch, Frame, Panels, Story
from scripts.slow_motion.tracing import Traced
from tests.models.replica.world import Client, World, calm

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.lab.paper import Sentence
    from kafka2011.replica.exchange import ReplicaData
    from scripts.slow_motion.recording import Place
    from tests.models.replica.process import Process

_SHIPPED = "kafka2011/replica"
_ROUNDS, _QUIET_ROUNDS = 20, 2
_PATIENCE_S = 5


class _Never(Random):
    """Draws so that nothing goes wrong by itself, and nothing is left to chance."""

    def random(self) -> float:
        return 0.999


class Recorder:
    """Takes three replicas from step to step, and keeps a frame of each."""

    def __init__(self) -> None:
        self.world: World = calm()
        self.world.chance = self.world.registry.chance = _Never()
        self.where = self.world.partitions[0]
        self.frames: list[Frame] = []
        self.client: Client | None = None
        self.sent: list[str] = []
        self.confirmed: list[str] = []
        self.befell: dict[str, str] = {}
        self.steps = 0

    def process(self, name: str) -> Process:
        """Return the process of that name."""
        return next(each for each in self.world.processes if each.name == name)

    @property
    def leader(self) -> Process | None:
        """The process that leads by the leader's node."""
        node = self.world.registry.now.leader
        return None if node is None else next(each for each in self.world.processes if each.me == node[0])

    def do(
        self,
        who: str,
        text: str,
        act: Callable[[], object],
        functions: tuple[str, ...] = (),
        sentence: Sentence = paper.NONE,
        *,
        quietly: bool = False,
    ) -> None:
        """Take one step; its code is the first of these functions that ran. `quietly`: only if something changed."""
        before = self.panels()
        with Traced(_SHIPPED) as traced:
            act()
        self.world.check()
        self.steps += 1
        panels = self.panels()
        if not (quietly and panels == before):
            self.frames.append(Frame(who, text, panels, _first(traced, functions), sentence))

    def note(self, text: str, sentence: Sentence = paper.NONE) -> None:
        """Keep a frame of how it is now."""
        self.frames.append(Frame("", text, self.panels(), None, sentence))

    # What is shown ---------------------------------------------------------------------------------------------------

    def panels(self) -> Panels:
        """Return replicas, registry and the producer."""
        return {
            **{f"Replica {process.name}": self._replica(process) for process in self.world.processes},
            "ZooKeeper": self._registry(),
            "Producer": {"sent": ", ".join(self.sent), "confirmed": ", ".join(self.confirmed) or "none"},
        }

    def _replica(self, process: Process) -> dict[str, str]:
        log = process.disk.logs.get(self.where)
        text, fsynced, readable = "", 0, 0
        if log is not None:
            text = " ".join(data.decode() for data, _ in log.messages().values())
            fsynced = log.flushed_end_offset
            readable = process.readable().get(self.where, 0)
        return {
            "process": self.befell.get(process.name, "runs"),
            "role": _role(process),
            "log": text,
            "on disk up to": str(fsynced),
            "readable up to": str(readable),
            "newest epoch seen": str(process.known.epoch),
        }

    def _registry(self) -> dict[str, str]:
        now = self.world.registry.now
        return {
            "epoch": str(now.state.epoch),
            "leader of the epoch": "nobody" if now.state.leader is None else now.state.leader.name,
            "in sync": ", ".join(sorted(each.name for each in now.state.in_sync)),
            "leader's node": "none" if now.leader is None else now.leader[0].name,
            "/brokers/ids/0": "none" if now.broker is None else now.broker[0],
        }

    # Steps -----------------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Have the producer connect to the leader."""
        leader = self.leader
        assert leader is not None
        assert leader.term is not None
        self.client = Client(leader, leader.life, leader.term.new_client())
        self.world.clients = [self.client]

    def send(self, message: str) -> None:
        """Have the producer send a message, and a barrier after it."""
        client, leader = self.client, self.leader
        assert client is not None
        assert leader is not None
        self.sent.append(message)
        self.do(
            leader.name,
            f"appends {message}, which the producer has sent",
            lambda: self.world.send(client, self.where, message.encode()),
            ("ClientAppends.appended",),
            paper.APPEND,
        )
        self.do(
            leader.name,
            f"gets a barrier: it is answered when {message} can be read",
            lambda: client.waiting.append((client.account.barrier(), list(client.sent))),
            ("ClientAppends.barrier",),
        )

    def copy(self, name: str) -> None:
        """Have a follower ask once, and take the answer."""
        follower, leader = self.process(name), self.leader
        assert leader is not None
        fetch = follower.ask()
        if fetch is None:
            follower.connect_to_leader()
            fetch = follower.ask()
        assert fetch is not None
        asked = fetch
        data: list[ReplicaData | None] = []
        self.do(
            leader.name,
            f"hears what {name} has on its disk: all in sync have it, so it can be read",
            lambda: data.append(leader.answer(asked)),
            ("Term.advance",),
            paper.EXPOSED,
            quietly=True,
        )
        (answer,) = data
        if answer is not None:
            self.do(
                name,
                "takes the leader's answer",
                lambda: follower.take(asked, answer),
                ("FollowedLog._compare", "FollowedLog._go_on", "FollowedLog.take"),
                quietly=True,
            )

    def flush(self, name: str) -> None:
        """Have a replica flush."""
        process = self.process(name)
        self.do(name, "flushes its log", lambda: process.flush(self.where), sentence=paper.FLUSH, quietly=True)

    def advance(self) -> None:
        """Have the leader see what can be read by now, and answer barriers."""
        leader = self.leader
        if leader is None or leader.term is None:
            return
        term = leader.term
        self.do(
            leader.name,
            "lets be read what all in sync have on their disks",
            lambda: term.advance(self.world.now_s),
            ("Term.advance",),
            paper.EXPOSED,
            quietly=True,
        )
        client = self.client
        if client is not None and client.waiting and client.process is leader and leader.term is term:
            self.do(
                leader.name,
                "answers the barrier: what was sent is confirmed",
                self._confirm,
                ("Barrier.is_due",),
                quietly=True,
            )

    def _confirm(self) -> None:
        client = self.client
        assert client is not None
        before = client.waiting[0][1] if client.waiting else []
        waiting = len(client.waiting)
        self.world.confirm()
        if len(client.waiting) < waiting:
            self.confirmed += [message.decode() for _, _, message in before]

    def go_on(self, name: str) -> None:
        """Have a replica do all that it has to do, step by step."""
        process = self.process(name)
        if not process.is_alive:
            return
        self.do(
            name,
            "looks at ZooKeeper, and takes the role that it gives",
            process.look,
            ("choose_role",),
            paper.REPLICATION,
            quietly=True,
        )
        leader = self.leader
        is_led = leader is not None and leader.term is not None and leader.name not in self.befell
        if process.following is not None and is_led:
            self.copy(name)
        self.flush(name)
        if process.term is not None:
            if leader is process:
                self.advance()
            self._write(process)
            self.do(
                name,
                "registers as the broker: clients find it now",
                process.register,
                ("Term.registration",),
                paper.REGISTER,
                quietly=True,
            )

    def _write(self, process: Process) -> None:
        """Have a leader write who is in sync, if that has changed."""

        def write() -> None:
            process.write_state()
            while self.world.registry.is_busy:
                (sent,) = self.world.registry._take(process.session)
                self.world.registry._decide(sent, lost=0)
            process.write_state()
            process.note_floor()

        self.do(process.name, "writes into ZooKeeper who is in sync", write, ("Term.wanted",), quietly=True)

    def settle(self, *names: str) -> None:
        """Have replicas go on by turns until nothing changes."""
        quiet = 0
        for _ in range(_ROUNDS):
            before = self.panels()
            for name in names:
                self.go_on(name)
            quiet = quiet + 1 if self.panels() == before else 0
            if quiet == _QUIET_ROUNDS:
                return
        raise AssertionError("replicas do not come to rest")


def _first(traced: Traced, functions: tuple[str, ...]) -> Place | None:
    for name in functions:
        try:
            return traced.place(name)
        except KeyError:
            continue
    return None


def _role(process: Process) -> str:
    if not process.is_alive:
        return "none"
    if process.term is not None:
        return f"leads in epoch {process.term.epoch}" + ("" if process.has_lease() else ", and its session is over")
    if process.following is not None:
        return f"follows {process.following.role.leader.name} in epoch {process.following.role.epoch}"
    return "neither leads nor follows"


# The story -----------------------------------------------------------------------------------------------------------


def _main(until: str = "") -> tuple[Recorder, dict[str, int]]:
    """Go along the main line up to a mark, or to its end; return the frames of all marks."""
    recorder = Recorder()
    marks: dict[str, int] = {}

    def is_end(title: str) -> bool:
        marks[title] = len(recorder.frames) - 1
        return title == until

    leader = recorder.leader
    assert leader is not None
    lead, one, other = leader.name, *(each.name for each in recorder.world.processes if each is not leader)
    recorder.note(f"Replicas a, b and c have the same log. {lead} leads; the message s0 is on all three disks.")
    recorder.connect()
    recorder.send("m1")
    if is_end("m1 is only in the leader's page cache"):
        return recorder, marks
    recorder.flush(lead)
    recorder.copy(one)
    if is_end(f"m1 is in the page cache of {one} too"):
        return recorder, marks
    recorder.flush(one)
    recorder.copy(other)
    recorder.flush(other)
    recorder.advance()
    if is_end("m1 is on all disks, and the leader does not know it yet"):
        return recorder, marks
    recorder.copy(one)
    recorder.copy(other)
    recorder.advance()
    if is_end("m1 is confirmed"):
        return recorder, marks
    recorder.settle(lead, one, other)
    recorder.note("All three have the same, and it can be read.", paper.EXPOSED)
    return recorder, marks


def record() -> Story:
    """Record a confirmed send, and what follows when the leader or a follower is lost at each mark."""
    recorder, marks = _main()
    story = Story("A takeover", ABOUT, recorder.frames)
    for title, after in marks.items():
        for fault, befall in _FAULTS.items():
            branch, _ = _main(title)
            del branch.frames[:]
            befall(branch)
            story.branches.append(Branch(after, title, fault, branch.frames))
    return story


def _names(recorder: Recorder) -> tuple[str, str, str]:
    leader = recorder.leader
    assert leader is not None
    one, other = (each.name for each in recorder.world.processes if each is not leader)
    return leader.name, one, other


def _end_session(recorder: Recorder, name: str) -> None:
    """Let seconds pass in which the others go on, until the session of one is over."""
    process = recorder.process(name)
    for _ in range(_PATIENCE_S):
        recorder.world.now_s += 1
        for other in recorder.world.processes:
            if other is not process:
                recorder.go_on(other.name)
    recorder.do(
        "",
        f"The session of {name} ends: its node is gone.",
        lambda: recorder.world.registry.end(process.session),
        sentence=paper.EPHEMERAL,
    )


def _come_back(recorder: Recorder, name: str, *others: str) -> None:
    process = recorder.process(name)
    recorder.befell.pop(name, None)
    recorder.do(name, "starts again", process.start)
    recorder.settle(*others, name)
    _send_again(recorder)


def _send_again(recorder: Recorder) -> None:
    """Have the producer send what was not confirmed to whoever leads by now."""
    if "m1" in recorder.confirmed:
        recorder.note("All three have the same again, and m1, which was confirmed, is there.", paper.REPLICATION)
        return
    recorder.note("All three have the same again. The producer has no answer about m1, so it sends m1 once more.")
    recorder.connect()
    recorder.send("m1")
    recorder.settle(*(each.name for each in recorder.world.processes))
    recorder.note("m1 is confirmed. Whether it is there once or twice, it is not lost.", paper.AT_LEAST_ONCE)


def _kill_leader(recorder: Recorder) -> None:
    lead, one, other = _names(recorder)
    recorder.befell[lead] = "killed"
    recorder.do(lead, "is killed with kill -9", recorder.process(lead).die, sentence=paper.UNAVAILABLE)
    _end_session(recorder, lead)
    recorder.settle(one, other)
    _come_back(recorder, lead, one, other)


def _cut_off_leader(recorder: Recorder) -> None:
    lead, one, other = _names(recorder)
    recorder.befell[lead] = "cut off from ZooKeeper and from the others"
    recorder.note(f"{lead} is cut off. It does not know it yet.")
    _end_session(recorder, lead)
    recorder.settle(one, other)
    recorder.flush(lead)
    process = recorder.process(lead)
    recorder.do(lead, "sees that its lease is over, and leads no more", process.lose_lease)
    recorder.befell.pop(lead)
    recorder.settle(one, other, lead)
    _send_again(recorder)


def _cut_power(recorder: Recorder) -> None:
    names = _names(recorder)

    def fail() -> None:
        for name in names:
            process = recorder.process(name)
            process.die()
            recorder.world.registry.end(process.session)
            recorder.befell[name] = "without power"
            for log in process.disk.logs.values():
                log.now = log.on_disk
                log.flush()

    recorder.world.now_s += _PATIENCE_S
    recorder.do("", "Power fails everywhere: only what is on a disk is left.", fail, sentence=paper.UNAVAILABLE)
    for name in names[1:]:
        recorder.befell.pop(name)
        recorder.do(name, "starts again", recorder.process(name).start)
    recorder.settle(*names[1:])
    _come_back(recorder, names[0], *names[1:])


def _kill_follower(recorder: Recorder) -> None:
    lead, one, other = _names(recorder)
    recorder.befell[one] = "killed"
    recorder.do(one, "is killed with kill -9", recorder.process(one).die)
    _end_session(recorder, one)
    recorder.settle(lead, other)
    recorder.note(f"{one} is out of sync: {lead} waits for it no more.")
    _come_back(recorder, one, lead, other)


_FAULTS: dict[str, Callable[[Recorder], None]] = {
    "kill the leader": _kill_leader,
    "cut the leader off": _cut_off_leader,
    "power fails everywhere": _cut_power,
    "kill a follower": _kill_follower,
}
ABOUT = (
    "Three replicas of broker 0. A message can be read, and is confirmed, once it is on the disk of every replica that "
    "is in sync. The paper leaves replicas to the future; this is how kafka2011 has them, where they are switched on."
)
