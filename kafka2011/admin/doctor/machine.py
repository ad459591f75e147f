"""What can be wrong on a broker's own machine: settings that do not fit together, and disks that will not do."""

from __future__ import annotations

import os
import time
from math import inf
from typing import TYPE_CHECKING

from kafka2011.admin.doctor.checkup import Finding
from kafka2011.errors import LogError
from kafka2011.log.clock_file import load_clock_notes
from kafka2011.log.retention import MAX_CLOCK_JUMP_MS, is_impossible
from kafka2011.log.scrub_record import ScrubFile
from kafka2011.log.segment import find_segment_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.config import BrokerConfig

DEFAULT_FETCH_BYTES = 1024 * 1024
"""fetch.size of 0.7's consumers, and of ours."""
MOST_SNAPSHOTS = 10
MOST_PASSES_LATE = 3
_HOUR_S = 3600
_DAY_S = 86_400
_HOUR_MS = 3_600_000
_WEEK_S = 7 * _DAY_S
_LITTLE_FREE = 0.1


def settings_that_do_not_fit(config: BrokerConfig) -> Iterator[Finding]:
    """Find settings that are allowed each by itself, and together do what nobody wants."""
    where = f"broker {config.brokerid}"
    if config.max_message_size >= DEFAULT_FETCH_BYTES:
        yield Finding(
            where,
            f"max.message.size is {config.max_message_size}, and consumers fetch {DEFAULT_FETCH_BYTES} bytes unless"
            " told otherwise: a message that does not fit stops them",
            "lower it, or raise fetch.size of every consumer above it",
        )
    if config.log_retention_size < 0 and config.log_roll_hours > config.log_retention_hours:
        kept_hours = config.log_roll_hours + config.log_retention_hours
        yield Finding(
            where,
            f"log.roll.hours ({config.log_roll_hours:g}) is more than log.retention.hours"
            f" ({config.log_retention_hours:g}): messages of a quiet topic stay for up to {kept_hours:g} hours",
            "set log.roll.hours to a part of log.retention.hours",
        )
    if config.log_retention_size >= 0 and config.log_retention_size < config.log_file_size:
        yield Finding(
            where,
            f"log.retention.size ({config.log_retention_size}) is less than one segment, log.file.size"
            f" ({config.log_file_size}): a partition keeps up to two whole segments all the same",
            "lower log.file.size",
        )


def disk_against_retention(config: BrokerConfig, now_s: float | None = None) -> Iterator[Finding]:
    """Find a disk that is full before retention makes room, judged by what was written in the last day."""
    where = f"broker {config.brokerid}"
    try:
        disk = os.statvfs(config.log_dir)
    except OSError as error:
        yield Finding(where, f"log.dir {config.log_dir}: {error.strerror}", "mount its disk before it is started")
        return
    files = _sizes_and_times(config.log_dir)
    now_s = time.time() if now_s is None else now_s
    held_bytes = sum(size for size, _ in files)
    day_bytes = sum(size for size, modified_s in files if modified_s > now_s - _DAY_S)
    free_bytes, all_bytes = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    wanted_bytes = day_bytes * config.log_retention_hours / 24
    if config.log_retention_size >= 0:
        logs = len({path.parent for path in config.log_dir.glob("*/*.kafka")})
        wanted_bytes = min(wanted_bytes, logs * (config.log_retention_size + config.log_file_size))
    if wanted_bytes > held_bytes + free_bytes:
        hours = free_bytes / day_bytes * 24
        yield Finding(
            where,
            f"{config.log_dir} got {day_bytes / 1e9:.1f} GB in the last day, retention will keep"
            f" {wanted_bytes / 1e9:.1f} GB, and there is room for {(held_bytes + free_bytes) / 1e9:.1f} GB: full in"
            f" about {hours:.0f} hours",
            "lower log.retention.hours, set log.retention.size, or add a broker or a disk; a full disk stops it",
        )
    elif free_bytes < _LITTLE_FREE * all_bytes:
        yield Finding(
            where,
            f"{config.log_dir} has {free_bytes / 1e9:.1f} GB free of {all_bytes / 1e9:.1f} GB",
            "see what else lies on that disk; a full disk stops the broker",
        )


def segment_times_that_are_wrong(config: BrokerConfig, now_s: float | None = None) -> Iterator[Finding]:
    """Find segments whose files bear times at which they were not written: retention keeps them too long."""
    now_ms = (time.time() if now_s is None else now_s) * 1000
    where = f"broker {config.brokerid}"
    wrong: list[str] = []
    for directory in sorted({path.parent for path in config.log_dir.glob("*/*.kafka")}):
        wrong += _wrong_times(directory, now_ms)
    if wrong:
        yield Finding(
            where,
            f"{len(wrong)} segments bear a time that is wrong, as does {wrong[0]}: it is before 2011, later than now,"
            " or earlier than that of the segment before it. Retention takes a later one",
            "leave them, and they are deleted late; or give the files their right times with touch, while the broker"
            " is stopped",
        )
    try:
        notes = load_clock_notes(config.log_dir)
    except (LogError, OSError) as error:
        yield Finding(
            where,
            f"what it has noted of its clock cannot be read: {error}",
            "remove that file; retention then goes by age at once, and not only after 24 h",
        )
        return
    kept_ms = max([config.log_retention_hours, *config.topic_log_retention_hours.values()]) * _HOUR_MS
    if notes is not None and notes.copied_ms and now_ms - notes.copied_ms < kept_ms:
        hours = (now_ms - notes.copied_ms) / _HOUR_MS
        yield Finding(
            where,
            f"{config.log_dir} was copied {hours:.0f} h ago without the times of its files: retention takes older"
            " segments for written then, and deletes them late",
            "copy with cp -a or rsync -a; where the disk has no room for that, lower log.retention.size for a while",
        )


def _wrong_times(directory: Path, now_ms: float) -> list[str]:
    """Return the segments of one log whose times are impossible, or out of order by more than an hour."""
    wrong: list[str] = []
    latest_ms = 0.0
    for _, path in find_segment_files(directory):
        try:
            modified_ms = path.stat().st_mtime * 1000
        except FileNotFoundError:  # retention took it meanwhile
            continue
        if is_impossible(modified_ms, now_ms) or modified_ms < latest_ms - MAX_CLOCK_JUMP_MS:
            wrong.append(str(path))
        else:
            latest_ms = max(latest_ms, modified_ms)
    return wrong


def damage_in_logs(config: BrokerConfig, now_s: float | None = None) -> Iterator[Finding]:
    """Find what the broker's scrub has found in its closed segments, and one that has not finished for long."""
    where = f"broker {config.brokerid}"
    try:
        record = ScrubFile(config.log_dir).load()
    except LogError as error:
        yield Finding(where, str(error), "delete the file: the broker begins to check its segments anew")
        return
    if record is None:
        return
    for damage in record.damage():
        yield Finding(
            where,
            f"{damage}; offsets {damage.start} to {damage.end} cannot be read",
            "look at the disk's health. A replica with good bytes repairs it; without one, consumers skip to offset"
            f" {damage.end} (docs/how-to/operations.md)",
        )
    for differing in record.differing():
        yield Finding(
            where,
            str(differing),
            "say which of the two is to be believed, and give the other one an empty log.dir"
            " (docs/how-to/replication.md)",
        )
    late_s = MOST_PASSES_LATE * config.log_scrub_interval_hours * _HOUR_S
    age_s = (time.time() if now_s is None else now_s) - (record.finished_s or inf)
    if config.log_scrub_bytes_per_second and age_s > max(late_s, _WEEK_S):
        yield Finding(
            where,
            f"its closed segments were last checked for damage {age_s / _DAY_S:.0f} days ago",
            "start it if it is stopped; else raise log.scrub.bytes.per.second",
        )


def snapshots_that_pile_up(directory: Path) -> Iterator[Finding]:
    """Find a ZooKeeper that never removes its old snapshots, by its dataDir on this machine."""
    snapshots = list(directory.glob("version-2/snapshot.*")) + list(directory.glob("snapshot.*"))
    if len(snapshots) > MOST_SNAPSHOTS:
        yield Finding(
            "ZooKeeper",
            f"{directory} holds {len(snapshots)} snapshots, with their logs: nothing removes them",
            "set autopurge.snapRetainCount=3 and autopurge.purgeInterval=1 in its zoo.cfg",
        )


def _sizes_and_times(log_dir: Path) -> list[tuple[int, float]]:
    files = []
    for path in log_dir.glob("*/*.kafka"):
        try:
            status = path.stat()
        except FileNotFoundError:  # retention took it meanwhile
            continue
        files.append((status.st_size, status.st_mtime))
    return files
