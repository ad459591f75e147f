"""A broker that can suffer more than a LocalBroker: its disk, its files, its port and its settings."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from integration.chaos.power_cut import lose_unsynced
from integration.chaos.segments import Archive
from integration.chaos.step_clock import StepClock
from kafka2011.local_cluster import STOP_TIMEOUT_S, LocalBroker
from zk.child import ChildProcess
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from integration.chaos.links import Links
    from integration.chaos.power_cut import Tail
    from integration.chaos.records import MessageId
    from integration.chaos.segments import Flip

ROOT = Path(__file__).parents[2]
SMALL_DISK_BYTES = 96_000_000
_FILLER_BYTES = 1_000_000


def clear(directory: Path) -> None:
    """Remove what an earlier run left, also one that was killed with -9 before it could unmount its small disk."""
    for disk in directory.glob("processes/*/disk"):
        if disk.is_mount():
            subprocess.run(["umount", "--lazy", str(disk)], check=False, capture_output=True)
    shutil.rmtree(directory, ignore_errors=True)


def host_of_broker(broker_id: int) -> str:
    """Return the address at which clients reach a broker."""
    return f"127.0.1.{broker_id + 1}"


class ChaosBroker(LocalBroker):
    """One broker, which clients reach over a link of its own, and whose segments are all kept.

    `name` and `host` are its own where there are several processes of one broker.
    """

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        settings: Mapping[str, object],
        links: Links,
        step_clock: Path | None,
        *,
        name: str = "",
        host: str = "",
    ) -> None:
        self.name = name or f"broker-{broker_id}"
        self.clock = StepClock(step_clock, directory / f"{self.name}.clock")
        self._links = links
        self._usual = {
            "bind.address": "127.0.0.1",
            **{key: str(value) for key, value in settings.items()},
            "hostname": host or host_of_broker(broker_id),
            "port": str(free_port()),
        }
        self.disk = directory / self.name / "disk"
        self.logs, self.synced = self.disk / "logs", self.disk / "synced"
        self.notes = directory / f"{self.name}.synced"
        noting = ("integration.chaos.synced", *map(str, (self.logs, self.notes, self.synced)))
        program = (*self.clock.prefix, sys.executable, "-m", *noting)
        super().__init__(broker_id, directory / self.name, self._usual, program)
        self.logs.mkdir(parents=True)
        self.log_dir.symlink_to(self.logs)
        self.archive = Archive(broker_id, self.logs, self.disk / "archive")
        self._mounted = False
        self._changed: set[str] = set()
        self._link_to_port()

    def __repr__(self) -> str:
        return f"<ChaosBroker {self.broker_id}>"

    def change(self, settings: Mapping[str, object]) -> None:
        """Take these settings from the next start on, and the usual ones for the rest."""
        for key in self._changed:
            del self._properties[key]
        self._changed = set(settings) - self._usual.keys()
        self._properties.update({key: str(value) for key, value in settings.items()})

    def grow(self, most: int) -> bool:
        """Have one partition more of each topic from the next start on; False when there are that many."""
        count = int(self._usual["num.partitions"])
        if count >= most:
            return False
        self.change({})
        self._usual["num.partitions"] = self._properties["num.partitions"] = str(count + 1)
        return True

    def move(self) -> None:
        """Take another port from the next start on."""
        self._usual["port"] = self._properties["port"] = str(free_port())
        self._link_to_port()

    def stop_for_good(self) -> None:
        """Stop it in order, and give its disk back."""
        self.stop()
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self.disk)], check=False, capture_output=True)
            self._mounted = False

    # The disk ----------------------------------------------------------------------------------------------------

    def mount_small_disk(self, size_bytes: int = SMALL_DISK_BYTES) -> bool:
        """Put the logs on a small file system of their own; False where nothing may be mounted."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(self.disk)]
        self._mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        self.logs.mkdir(exist_ok=True)
        return self._mounted

    def fill_disk(self) -> bool:
        """Leave no room; False where the disk is not its own."""
        if self._mounted:
            with (self.disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(_FILLER_BYTES))
        return self._mounted

    def empty_disk(self) -> None:
        """Make room again."""
        (self.disk / "filler").unlink()

    def cut_power(self, tail: Tail) -> set[MessageId] | None:
        """End it, let what it has not brought to disk vanish, and return what did; None where that is not known."""
        self.kill()
        return self.archive.lose(lambda: lose_unsynced(self.logs, self.notes, self.synced, tail))

    def flip(self, pick: float) -> Flip | None:
        """Turn over a bit in a closed segment."""
        return self.archive.flip(pick)

    # Files -------------------------------------------------------------------------------------------------------

    def forbid_files(self) -> None:
        """Let it open no file and accept no connection."""
        pid = self.process.pid
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, most))

    def allow_files(self) -> None:
        """Let it open files again, unless it has ended meanwhile."""
        with suppress(ProcessLookupError):
            _, most = resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (most, most))

    def _make_process(self, arguments: Sequence[str]) -> ChildProcess:
        command = [*self._program, *arguments]
        return ChildProcess(command, self.output_path, cwd=ROOT, stop_timeout_s=STOP_TIMEOUT_S)

    def _link_to_port(self) -> None:
        port = int(self._usual["port"])
        self._links.add(f"clients to {self.name}", ("127.0.0.1", port), host=self._usual["hostname"], port=port)
