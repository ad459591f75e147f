"""Defects that a log might have: one change each to shipped code, which the model has to notice.

Left out is what no single fault shows: a log that could not be made forbids the mark of a clean stop, and so on; those
have tests of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.disk import Disk
from kafka2011.log import recovery
from kafka2011.log.log import Log
from kafka2011.log.log_manager import LogManager
from kafka2011.log.partition_counts import PartitionCounts
from kafka2011.log.replicated_log import ReplicatedLog
from kafka2011.log.segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Callable


class Mutation(NamedTuple):
    """The scenario that shows it, what stands in a function, what is there instead, and the call that has to fail."""

    scenario: str
    function: Callable[..., Any]
    old: str
    new: str
    call: str = ""


BY_CRASHES = {
    "exposed before the fsync": Mutation(
        "begin",
        Log._sync,
        "self._segments.active.sync()\n        self._end_sync(end)",
        "self._end_sync(end)\n        self._segments.active.sync()",
    ),
    "exposed before the fsync of many": Mutation(
        "begin",
        LogManager._flush_together,
        "self._disk.fsync_all(begun)",
        "[flush.end(None) for flush in begun]; self._disk.fsync_all(begun)",
    ),
    "exposed though appended during the fsync": Mutation(
        "meanwhile", Log._end_sync, "self._flushed = end", "self._end_sync(self._appended)"
    ),
    "no fsync": Mutation("begin", Log._sync, "self._segments.active.sync()", "pass"),
    "no fsync of many": Mutation(
        "begin", LogManager._flush_together, "self._disk.fsync_all(begun)", "[flush.end(None) for flush in begun]"
    ),
    "no fsync of the old segment in a roll": Mutation(
        "roll", Log._try_to_roll, "self._sync()", "self._end_sync(self._appended)"
    ),
    "a roll that leaves the old segment unflushed": Mutation("roll", Log._try_to_roll, "self._sync()", "pass"),
    "no fsync before all segments go": Mutation(
        "retain", Log._part_with, "self._sync()", "self._end_sync(self._appended)"
    ),
    "no sync of the directory with a new segment": Mutation(
        "begin", Log._create_segment, "self._disk.fsync(directory_fd)", "pass"
    ),
    "no sync of log.dir with a new log": Mutation(
        "begin", Log._open_segments, "self._disk.fsync_directory(self.directory.parent)", "pass"
    ),
    "no sync of the name of log.dir": Mutation(
        "begin", LogManager._sync_name, "self._disk.fsync_directory(directory.parent)", "pass"
    ),
    "no sync of log.dir after the process ended": Mutation(
        "begin", LogManager._open_logs, "self._disk.fsync(self._lock_fd)", "pass"
    ),
    "a first log.dir whose name stays unsynced after the process ended": Mutation(
        "begin", LogManager._open_logs, "self._sync_name(self.log_dir)", "pass"
    ),
    "mark left before the flush": Mutation(
        "begin",
        LogManager.close,
        "failure: LogError | None = None",
        "failure: LogError | None = None\n        self._leave_mark()",
    ),
    "mark not on disk": Mutation("begin", LogManager._leave_mark, "self._disk.fsync(self._lock_fd)", "pass"),
    "mark not removed": Mutation(
        "begin",
        LogManager._take_mark,
        "(self.log_dir / CLEAN_SHUTDOWN_MARK).unlink()",
        "os.stat(self.log_dir / CLEAN_SHUTDOWN_MARK)",
    ),
    "mark not removed from the disk": Mutation(
        "begin", LogManager._take_mark, "self._disk.fsync(self._lock_fd)", "pass"
    ),
    "no recovery": Mutation(
        "begin", LogManager._open_logs, "recover = not self._take_mark()", "recover = self._take_mark()"
    ),
    "a torn tail kept": Mutation("begin", recovery._recover, "os.ftruncate(fd, walk.end)", "pass"),
    "a torn tail taken for good": Mutation("begin", recovery._recover, "if walk.end == size:", "if True:"),
    "cut behind the fault": Mutation(
        "begin", recovery._recover, "os.ftruncate(fd, walk.end)", "os.ftruncate(fd, min(size, walk.end + 1))"
    ),
    "cut before the last good message": Mutation(
        "begin", recovery._recover, "os.ftruncate(fd, walk.end)", "os.ftruncate(fd, max(0, walk.end - 1))"
    ),
    "all cut": Mutation("begin", recovery._recover, "os.ftruncate(fd, walk.end)", "os.ftruncate(fd, 0)"),
    "the cut not on disk": Mutation(
        "begin", recovery._recover, "os.ftruncate(fd, walk.end)\n    disk.fsync(fd)", "os.ftruncate(fd, walk.end)"
    ),
    "what remains not brought to disk": Mutation(
        "begin", recovery.recover_last_segment, "disk.fsync(file.fileno())  # these", "pass  # these"
    ),
    "names not brought to disk by recovery": Mutation(
        "begin", recovery.recover_last_segment, "disk.fsync_directory(directory)", "pass"
    ),
    "the first segment recovered, not the last": Mutation(
        "begin", recovery.recover_last_segment, "path = files[-1]", "path = files[0]"
    ),
    "the copy of what is cut not on disk": Mutation("begin", recovery.keep, "disk.fsync(cut_fd)", "pass"),
    "the name of the copy of what is cut not on disk": Mutation(
        "begin", recovery.keep, "disk.fsync_directory(path.parent)", "pass"
    ),
    "deletions not brought to disk": Mutation("retain", Log._delete, "self._disk.fsync(directory_fd)", "pass"),
    "the newest segment deleted first": Mutation(
        "retain", Log._delete, "enumerate(doomed)", "list(enumerate(doomed))[::-1]"
    ),
    "more deleted than said": Mutation(
        "retain", Log._delete, "enumerate(doomed)", "enumerate((*doomed, self._segments.segments[0]))"
    ),
    "files of a deleted topic gone before its name is": Mutation(
        "delete", LogManager.delete_topic, "self._disk.fsync(self._lock_fd)", "pass"
    ),
    "a deleted topic that keeps its name": Mutation(
        "delete",
        LogManager.delete_topic,
        "path.rename(path.with_name(path.name + DELETED_SUFFIX))",
        "path",
    ),
    "what a deletion left is not removed": Mutation(
        "delete",
        LogManager._end_deletions,
        "self._remove_deleted(doomed)",
        "pass",
    ),
    "files of a deletion that goes on gone before its name is": Mutation(
        "delete", LogManager._end_deletions, "self._disk.fsync(self._lock_fd)", "pass"
    ),
    "a deleted topic whose growth stays": Mutation(
        "delete", LogManager.delete_topic, "self._counts.forget(topic)", "pass"
    ),
    "growth whose file is not on disk": Mutation(
        "grow", PartitionCounts._write, "self._disk.fsync(opened.fileno())", "pass"
    ),
    "growth whose file's name is not on disk": Mutation(
        "grow", PartitionCounts._write, "self._disk.fsync_directory(self._log_dir)", "pass"
    ),
    "growth written over what was there": Mutation(
        "grow", PartitionCounts._write, "new = self._log_dir / _NEW_NAME", "new = self._log_dir / FILE_NAME"
    ),
    "offsets that restart": Mutation(
        "retain",
        Log._part_with,
        "self._roll(())",
        "self._appended = self._flushed = End(0, 0); self._roll(())",
    ),
    "a cut not on disk": Mutation("follow", LogSegment.cut, "self.sync()", "pass"),
    "no cut": Mutation("follow", LogSegment.cut, "os.ftruncate(self._fd, size_bytes)", "pass"),
    "segments that go not brought to disk": Mutation(
        "follow", ReplicatedLog._drop_last, "self._disk.fsync(directory_fd)", "pass"
    ),
    "a cut from its start": Mutation(
        "follow",
        ReplicatedLog._cut_back_to,
        "while len(",
        "self._segments.segments[-2 if len(self._segments.starts) > 1 else -1].path.unlink() or 0\n    while len(",
    ),
    "a new beginning not on disk": Mutation(
        "begin_anew", ReplicatedLog._move_to, "self._disk.fsync(directory_fd)", "pass"
    ),
    "a new beginning that keeps bytes": Mutation(
        "begin_anew", ReplicatedLog._cut_last, "last.cut(offset - last.start_offset)", "pass"
    ),
    "no fsync before a leader's segment ends": Mutation("follow", Log._try_to_roll, "self._sync()", "pass"),
}

BY_FAULTS = {
    "a failed log that goes on": Mutation("begin", Log._fail, "self.failure = failure", "pass", "fsync"),
    "a failed log that is flushed again": Mutation(
        "roll", Log._begin_sync, "if self.failure is not None:", "if False:", "fsync"
    ),
    "a log that goes on though its flush with others failed": Mutation(
        "begin", Log.end_flush, "if error is None:", "if True:", "fsync"
    ),
    "mark left after a failure": Mutation("begin", LogManager.close, "if not self._is_tainted:", "if True:", "write"),
    "failure of a log forgotten": Mutation(
        "begin", LogManager.close, "self._is_tainted |= log.failure is not None", "pass", "write"
    ),
    "the page cache believed": Mutation(
        "begin", recovery._recover, "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)", "pass", "fsync"
    ),
    "half an append left": Mutation(
        "begin", LogSegment.append, "os.ftruncate(self._fd, self.size_bytes)", "pass", "write"
    ),
    "half an append left on the disk": Mutation("begin", LogSegment.append, "self.has_remains = True", "pass", "write"),
    "a segment's name left after a roll that failed": Mutation(
        "begin", Log._create_segment, "segment.path.unlink()", "pass", "fsync"
    ),
    "a segment left open after a roll that failed": Mutation(
        "begin", Log._create_segment, "segment.release()", "pass", "fsync"
    ),
    "log.dir left open after a start that failed": Mutation(
        "begin", LogManager._abandon, "self._forget()", "pass", "unlink"
    ),
    "logs left open after a start that failed": Mutation(
        "begin", LogManager._abandon, "log.close()", "pass", "listdir"
    ),
    "a limit on open files that ends a log": Mutation(
        "begin", Log._try_to_roll, "if error.errno not in NO_FILES_ERRORS:", "if True:", "create"
    ),
    "a short write taken for a whole one": Mutation(
        "begin", Disk.write_all, "while written < len(data)", "while False", "write"
    ),
}
