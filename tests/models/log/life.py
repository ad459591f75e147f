"""A broker's log.dir from its first start on: what is done to it, and how it ends."""

from __future__ import annotations

import errno
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import KafkaError, LogClosedError
from kafka2011.log.label import Label
from kafka2011.log.log import LogHooks, Place
from kafka2011.log.log_directory import CLEAN_SHUTDOWN_MARK, DELETED_SUFFIX
from kafka2011.log.log_manager import LogManager, TopicSettings
from kafka2011.log.repair import SegmentRepair
from kafka2011.log.replicated_log import ReplicatedLog
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from tests.models.log.account import Account, Promise, flushed_end_of
from tests.models.log.disk import Directory, File, ModelDisk, Survival, Tree, frozen
from tests.models.log.file_layer import BlockedError, FileLayer, StoppedError, read_tree, write_tree
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.log.log import Log
    from kafka2011.log.log_settings import LogSettings
    from kafka2011.log.recovery import Recovery

TOPICS = ("a", "b")
LOG_DIR = "data/logs"


class Crash(NamedTuple):
    """The moment of a crash: what the disk held and may have held, and what it had to hold of each log."""

    nodes: tuple[tuple[int, File | Directory], ...]
    promises: tuple[Promise, ...]

    def disk(self) -> ModelDisk:
        """Return the disk at that moment."""
        return ModelDisk(dict(self.nodes))

    def state_after(self, survival: Survival | None) -> object:
        """Return what tells states apart that `Life.after` makes of this moment."""
        if survival is None:
            return self
        return frozen(self.disk().after_power_cut(survival)), self.promises


class Life:
    """A log.dir with two logs, in a new directory below `parent`, and the account of each log.

    A method is one thing that happens to a broker. It raises if something is refused although no call to the operating
    system has failed, or if a log is not as its account says.
    """

    def __init__(
        self,
        parent: Path,
        settings: LogSettings,
        disk: ModelDisk | None = None,
        accounts: dict[str, Account] | None = None,
        *,
        is_replica: bool = False,
    ) -> None:
        self.settings = settings
        self._is_replica = is_replica
        self.accounts = accounts or {topic: Account() for topic in TOPICS}
        self.clock = ManualClock(now_s=1000, wall_lead_s=1.6e9)
        self.root = Path(tempfile.mkdtemp(dir=parent))
        self.layer = FileLayer(self.root, disk or ModelDisk(), self.clock)
        self.layer.on_change = self._note_crash
        self.layer.let_others_run = self._let_others_run
        self.crashes: list[Crash] = []
        self.notes_crashes = False
        self.manager: LogManager | None = None
        self.recoveries: list[Recovery] = []  # of the last start
        self._logs: dict[str, Log] = {}  # those that are served
        self._to_flush: list[Log] = []
        self.others_write = False
        self._is_other = False
        write_tree(self.layer.disk.cached(), self.root, self.clock)

    # What happens to a broker

    def start(self) -> None:
        """Open the logs, which are recovered unless the last stop was clean, and compare them with the accounts.

        What has failed before succeeds again.
        """
        self._note_promises()
        self.layer.heal()
        manager = LogManager(
            self.root / LOG_DIR,
            TopicSettings(of=lambda _topic: self.settings),
            clock=self.clock,
            disk=self.layer,
            hooks=LogHooks(
                request_flush=self._to_flush.append, on_flushed=(lambda _log: None) if self._is_replica else None
            ),
            label=Label(0),
        )
        with self._shipped():
            manager.open()
            self.manager = manager
        if self.manager is None:
            assert not self.layer.open_descriptors(), "a start that failed left files open"
            return
        assert not list((self.root / LOG_DIR).glob(f"*{DELETED_SUFFIX}")), "files of a deleted topic stay"
        self.recoveries = manager.recoveries
        with self.layer.installed(), self.layer.without_faults():
            for topic, account in self.accounts.items():
                log = manager.get(topic, 0)
                account.take_over(log, manager.num_partitions(topic))
                if log is not None:
                    self._logs[topic] = log

    def append(self, topic: str, *sizes: int, codec: Codec = Codec.NONE, rolls: bool | None = None) -> None:
        """Append messages with payloads of these sizes, and flush if that is due.

        As a follower if it is told whether the leader `rolls` before them.
        """
        account = self.accounts[topic]
        data = bytes(MessageSet([account.next_payload(size) for size in sizes], codec))
        account.try_append(data)
        with self._shipped(may_stop=True):
            log = self._logs[topic] = self._opened().get_or_create(topic, 0)
            end = log.appended_end_offset
            place = None if rolls is None else Place(end, end if rolls else log.segment_offsets[-1])
            account.appended(log.append(data, len(sizes), place), data)
        self._after_step()

    def flush(self, topic: str) -> None:
        """Flush a log, if it is there."""
        if topic in self._logs:
            with self._shipped():
                self._logs[topic].flush()
        self._after_step()

    def flush_due(self, after_ms: float = 3000) -> None:
        """Let time pass, and flush as the timer does."""
        self.clock.now_ms += after_ms
        with self._shipped():
            self._opened().flush_due()
        self._after_step()

    def retain(self, after_ms: float = 0) -> None:
        """Let time pass, and delete what is too old or too much."""
        self.clock.now_ms += after_ms
        with self._shipped():
            self._opened().clean_up()
            for topic, log in self._logs.items():
                self.accounts[topic].deleted(log)
        self._after_step()

    def delete(self, topic: str) -> None:
        """Delete a topic; a broker that cannot stops, and is started again."""
        account = self.accounts[topic]
        if topic in self._logs:
            account.promise = account.promise_now(self._logs.pop(topic))
        account.begin_deletion()
        if self._is_done(lambda manager: manager.delete_topic(topic)):
            account.gone()

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions; a broker that cannot stops, and is started again."""
        account = self.accounts[topic]
        account.begin_growth(partitions)
        if self._is_done(lambda manager: manager.grow_topic(topic, partitions)):
            account.grown()

    def _is_done(self, request: Callable[[LogManager], None]) -> bool:
        """Carry out what an operator asks for, while nobody writes; stop and start again if that fails."""
        others_write, self.others_write = self.others_write, False
        is_done = False
        with self._shipped():
            request(self._opened())
            is_done = True
        self.others_write = others_write
        if is_done:
            self._after_step()
        else:
            self.stop()
            self.start()
        return is_done

    # What happens to a replica

    def let_read(self, topic: str) -> None:
        """Let clients read what is on this disk."""
        if topic in self._logs:
            with self._shipped():
                self._replicated(topic).log.let_read(flushed_end_of(self._logs[topic]))
        self._after_step()

    def cut(self, topic: str, offset: int) -> None:
        """Cut a log, if it is there, at or before the first message that starts at an offset or later."""
        if topic not in self._logs:
            return
        log, account = self._replicated(topic), self.accounts[topic]
        with self.layer.without_faults(), self.layer.installed():
            offset = log.message_start(min(max(offset, log.log.end_offset), log.log.appended_end_offset))
        account.begin_cut(offset)
        self._change(topic, lambda: log.cut(offset))

    def begin_at(self, topic: str, offset: int) -> None:
        """Remove everything in a log, if it is there, and begin at an offset."""
        if topic not in self._logs:
            return
        log, account = self._replicated(topic), self.accounts[topic]
        log.log.let_nobody_read()
        account.begin_cut(log.log.start_offset, offset)
        self._change(topic, lambda: log.begin_at(offset))

    def _change(self, topic: str, change: Callable[[], None]) -> None:
        is_done = False
        with self._shipped():
            change()
            is_done = True
        self.accounts[topic].end_cut(self._logs[topic], is_done=is_done)
        self._after_step()

    def delete_before(self, topic: str, offset: int) -> None:
        """Delete what the leader has deleted."""
        if topic in self._logs:
            with self._shipped():
                self._replicated(topic).log.delete_before(offset)
                self.accounts[topic].deleted(self._logs[topic])
        self._after_step()

    def repair(self, topic: str) -> None:
        """Put a copy of the first closed segment in its place, if there is one."""
        if topic not in self._logs or len(self._logs[topic].segments.segments) == 1:
            self._after_step()
            return
        log = self._logs[topic]
        segment = log.segments.segments[0]
        data = segment.path.read_bytes()
        with self._shipped(), SegmentRepair(log, segment.start_offset, self.layer) as repair:
            repair.write(data)
            repair.check()
            repair.install()
        self._after_step()

    def _replicated(self, topic: str) -> ReplicatedLog:
        return ReplicatedLog(self._logs[topic], self.clock)

    # How it ends

    def stop(self) -> None:
        """Close the logs, if they are open.

        Nothing stays open, all is flushed, and the mark is there, unless a call has failed.
        """
        if self.manager is None:
            return
        with self._shipped():
            self._opened().close()
        self._note_promises()
        is_marked = self.layer.disk.find((*LOG_DIR.split("/"), CLEAN_SHUTDOWN_MARK)) is not None
        assert is_marked or self.layer.has_failed, "no mark after a clean stop"
        if is_marked:
            for account in self.accounts.values():
                assert account.promise.flushed_end == len(account.data), "a mark, but not all is flushed"
        assert not self.layer.open_descriptors(), "a stop left files open"
        self._end()

    def end(self) -> None:
        """End the process; what it wrote is in the page cache."""
        self._note_promises()
        self._end()

    def _end(self) -> None:
        self.manager = None
        self._logs.clear()
        self._to_flush.clear()
        self.layer.restart()

    # Crashes

    def crash_now(self) -> Crash:
        """Return what a crash would leave at this moment."""
        return Crash(tuple(self.layer.disk.nodes.items()), tuple(map(self._promise_now, self.accounts)))

    def after(self, crash: Crash, survival: Survival | None) -> Life:
        """Return the life of what a power cut left, or, without a survival, of what the end of the process did."""
        accounts = {topic: account.copy() for topic, account in self.accounts.items()}
        for account, promise in zip(accounts.values(), crash.promises, strict=True):
            account.promise = promise if survival is None else promise._replace(written_end=0)
        disk = crash.disk()
        if survival is not None:
            disk = ModelDisk.of(disk.after_power_cut(survival))
        return Life(
            self.root.parent,
            self.settings,
            disk,
            accounts,
            is_replica=self._is_replica,
        )

    def tree(self) -> Tree:
        """Return all files, as processes see them."""
        tree = read_tree(self.root)
        assert tree == self.layer.disk.cached(), "the model of the disk is wrong"
        return tree

    def ends(self) -> dict[str, tuple[int, int]]:
        """Return where each log starts and ends."""
        return {topic: (log.start_offset, log.end_offset) for topic, log in self._logs.items()}

    def cuts(self) -> set[bytes]:
        """Return what all recoveries have cut and kept."""
        paths = (self.root / LOG_DIR).glob("*/*.cut")
        return {path.read_bytes() for path in paths}

    def cuts_that_count(self, moment: Crash) -> set[bytes]:
        """Return what the last start cut, but was on the disk for certain at that moment of it."""
        cuts = set()
        for recovery in self.recoveries:
            segment = moment.disk().find(recovery.path.relative_to(self.root).parts)
            if recovery.cut_path is None or segment is None:
                continue
            if len(moment.disk().file(segment).durable) == recovery.size_bytes:
                cuts.add(recovery.cut_path.read_bytes())
        return cuts

    def _note_crash(self) -> None:
        if self.notes_crashes and not self.layer.awaits_fault:
            self.crashes.append(self.crash_now())

    def _note_promises(self) -> None:
        for topic, account in self.accounts.items():
            account.promise = self._promise_now(topic)

    def _promise_now(self, topic: str) -> Promise:
        account = self.accounts[topic]
        promise = account.promise_now(self._logs[topic]) if topic in self._logs else account.promise
        return promise._replace(written_end=0) if self.layer.has_lost_pages else promise

    def _opened(self) -> LogManager:
        if self.manager is None:
            raise LogClosedError("the last start has failed")
        return self.manager

    # What goes on meanwhile, and what holds at every moment

    def _let_others_run(self, call: str) -> None:
        """Read all logs while somebody waits for the disk; let others append or flush, unless they had to wait."""
        if self._is_other:
            return
        self._is_other = True
        for topic in self._logs:
            with suppress(BlockedError, LogClosedError):
                self.compare(topic)
                if self.others_write and call == "write":
                    self.flush(topic)
                elif self.others_write:
                    self.append(topic, 3)
        self._is_other = False

    def _after_step(self) -> None:
        if not self._is_other:
            if self._to_flush:  # others may ask for more meanwhile, without end
                logs, self._to_flush[:] = self._to_flush[:], []
                with self._shipped():
                    self._opened().flush(logs)
            for topic in self._logs:
                self.compare(topic)

    def compare(self, topic: str) -> None:
        """Compare what a log says and holds with its account."""
        with self._shipped():
            self.accounts[topic].compare(self._logs[topic])

    @contextmanager
    def _shipped(self, *, may_stop: bool = False) -> Iterator[None]:
        """Run shipped code in the block; it may end with an error of its own, but only if a call has failed."""
        before, self.layer.may_stop = self.layer.may_stop, may_stop and not self._is_other
        try:
            with self.layer.installed():
                yield
        except StoppedError:
            pass
        except KafkaError:
            if not self.layer.has_failed:
                raise
            if self.layer.has_failed_with(errno.EMFILE):
                failures = [log.failure for log in self._logs.values() if log.failure is not None]
                assert not failures, f"a limit on open files has ended a log: {failures}"
        finally:
            self.layer.may_stop = before
