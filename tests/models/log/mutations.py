"""Defects that a log might have: one change each to shipped code, which the model has to notice.

Left out is what no single fault shows: a log that could not be made forbids the mark of a clean stop, and so on; those
have tests of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.disk import Disk
from kafka2011.log import flush_together, recovery
from kafka2011.log.log import Log
from kafka2011.log.log_directory import LogDirectory
from kafka2011.log.log_manager import LogManager
from kafka2011.log.partition_counts import PartitionCounts
from kafka2011.log.rewind import Rewind
from kafka2011.log.segment import LogSegment
from kafka2011.log.segment_files import SegmentFiles

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
        "self._files.list.active.sync()\n        self._end_sync(end)",
        "self._end_sync(end)\n        self._files.list.active.sync()",
    ),
    "exposed before the fsync of many": Mutation(
        "begin",
        flush_together._flush,
        "disk.fsync_all(begun)",
        "[flush.end(None) for flush in begun]; disk.fsync_all(begun)",
    ),
    "exposed though appended during the fsync": Mutation(
        "meanwhile", Log._end_sync, "self._ends.flushed = end", "self._end_sync(self._ends.appended)"
    ),
    "no fsync": Mutation("begin", Log._sync, "self._files.list.active.sync()", "pass"),
    "no fsync of many": Mutation(
        "begin", flush_together._flush, "disk.fsync_all(begun)", "[flush.end(None) for flush in begun]"
    ),
    "no fsync of the old segment in a roll": Mutation(
        "roll", Log._try_to_roll, "self._sync()", "self._end_sync(self._ends.appended)"
    ),
    "a roll that leaves the old segment unflushed": Mutation("roll", Log._try_to_roll, "self._sync()", "pass"),
    "no fsync before all segments go": Mutation(
        "retain", Log._part_with, "self._sync()", "self._end_sync(self._ends.appended)"
    ),
    "no sync of the directory with a new segment": Mutation(
        "begin", SegmentFiles._create, "self._disk.fsync(directory_fd)", "pass"
    ),
    "no sync of log.dir with a new log": Mutation(
        "begin", SegmentFiles.open, "self._disk.fsync_directory(self.directory.parent)", "pass"
    ),
    "no sync of the name of log.dir": Mutation(
        "begin", LogDirectory._sync_name, "self._disk.fsync_directory(directory.parent)", "pass"
    ),
    "no sync of log.dir after the process ended": Mutation(
        "begin", LogManager._open_logs, "self._directory.sync()", "pass"
    ),
    "a first log.dir whose name stays unsynced after the process ended": Mutation(
        "begin", LogManager._open_logs, "self._directory.sync_name()", "pass"
    ),
    "mark left before the flush": Mutation(
        "begin",
        LogManager.close,
        "failure: LogError | None = None",
        "failure: LogError | None = None\n        self._directory.leave_mark()",
    ),
    "mark not on disk": Mutation("begin", LogDirectory.leave_mark, "self.sync()", "pass"),
    "mark not removed": Mutation(
        "begin",
        LogDirectory.take_mark,
        "(self.path / CLEAN_SHUTDOWN_MARK).unlink()",
        "os.stat(self.path / CLEAN_SHUTDOWN_MARK)",
    ),
    "mark not removed from the disk": Mutation("begin", LogDirectory.take_mark, "self.sync()", "pass"),
    "no recovery": Mutation(
        "begin",
        LogManager._open_logs,
        "recover = not self._directory.take_mark()",
        "recover = self._directory.take_mark()",
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
    "deletions not brought to disk": Mutation("retain", SegmentFiles.delete, "self._disk.fsync(directory_fd)", "pass"),
    "the newest segment deleted first": Mutation(
        "retain", Log._delete, "enumerate(doomed)", "list(enumerate(doomed))[::-1]"
    ),
    "more deleted than said": Mutation(
        "retain", Log._delete, "enumerate(doomed)", "enumerate((*doomed, self._files.list.segments[0]))"
    ),
    "files of a deleted topic gone before its name is": Mutation(
        "delete", LogDirectory.rename_deleted, "self.sync()", "pass"
    ),
    "a deleted topic that keeps its name": Mutation(
        "delete",
        LogDirectory.rename_deleted,
        "path.rename(path.with_name(path.name + DELETED_SUFFIX))",
        "path",
    ),
    "what a deletion left is not removed": Mutation(
        "delete",
        LogDirectory.end_deletions,
        "self.remove(doomed)",
        "pass",
    ),
    "files of a deletion that goes on gone before its name is": Mutation(
        "delete", LogDirectory.end_deletions, "self.sync()", "pass"
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
        "self._ends.appended = self._ends.flushed = End(0, 0); self._roll(())",
    ),
    "a cut not on disk": Mutation("follow", LogSegment.cut, "self.sync()", "pass"),
    "no cut": Mutation("follow", LogSegment.cut, "os.ftruncate(self._fd, size_bytes)", "pass"),
    "segments that go not brought to disk": Mutation(
        "follow", SegmentFiles.delete, "self._disk.fsync(directory_fd)", "pass"
    ),
    "a cut from its start": Mutation(
        "follow",
        Rewind.cut_back_to,
        "while len(",
        "self._files.list.segments[-2 if len(self._files.list.starts) > 1 else -1].path.unlink() or 0\n    while len(",
    ),
    "a new beginning not on disk": Mutation(
        "begin_anew", SegmentFiles.move_to, "self._disk.fsync(directory_fd)", "pass"
    ),
    "a new beginning that keeps bytes": Mutation(
        "begin_anew", Rewind._cut_last, "last.cut(offset - last.start_offset)", "pass"
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
        "begin", SegmentFiles._create, "segment.path.unlink()", "pass", "fsync"
    ),
    "a segment left open after a roll that failed": Mutation(
        "begin", SegmentFiles._create, "segment.release()", "pass", "fsync"
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
