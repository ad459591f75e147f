"""What can be wrong on a broker's own machine: settings that do not fit together, and disks that will not do."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from kafka2011.admin.doctor.checkup import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.config import BrokerConfig

DEFAULT_FETCH_BYTES = 1024 * 1024
"""fetch.size of 0.7's consumers, and of ours."""
MOST_SNAPSHOTS = 10
_DAY_S = 86_400
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
