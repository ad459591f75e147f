"""The model's disk: what survives a power cut, and what the layer over real files tells it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from tests.models.log.disk import (
    EVERYTHING,
    NAMES,
    NAMES_AND_SIZES,
    NOTHING,
    ROOT,
    SECTOR_BYTES,
    SIZES,
    Directory,
    File,
    ModelDisk,
    Survival,
)
from tests.models.log.file_layer import Fault, FileLayer, read_tree
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

DATA = bytes(range(1, 1 + 3 * SECTOR_BYTES))


def disk_with_file(data: bytes = b"") -> tuple[ModelDisk, int]:
    disk = ModelDisk.of({"f": data})
    number = disk.find(("f",))
    assert number is not None
    return disk, number


def test_what_was_not_synced_may_be_lost_and_may_be_there() -> None:
    disk, number = disk_with_file(b"old")
    disk.append(number, DATA)
    assert disk.after_power_cut(NOTHING) == {"f": b"old"}
    assert disk.after_power_cut(EVERYTHING) == {"f": b"old" + DATA} == disk.cached()
    assert disk.after_power_cut(SIZES) == {"f": b"old" + bytes(len(DATA))}
    disk.sync(number, disk.count_pending(number))
    assert disk.after_power_cut(NOTHING) == {"f": b"old" + DATA}


def test_sectors_survive_one_by_one() -> None:
    disk, number = disk_with_file()
    disk.append(number, DATA)
    left = {disk.after_power_cut(Survival(0, 0.5, 0, seed))["f"] for seed in range(100)}
    sectors = [DATA[at : at + SECTOR_BYTES] for at in range(0, len(DATA), SECTOR_BYTES)]
    hole = bytes(SECTOR_BYTES)
    assert left == {
        b"".join(sector if kept >> index & 1 else hole for index, sector in enumerate(sectors[: kept.bit_length()]))
        for kept in range(8)
    }


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    disk, number = disk_with_file()
    disk.append(number, b"before")
    count = disk.count_pending(number)
    disk.append(number, b"meanwhile")
    disk.sync(number, count)
    assert disk.after_power_cut(NOTHING) == {"f": b"before"}


def test_names_survive_on_their_own_but_those_of_one_kind_in_order() -> None:
    disk = ModelDisk()
    disk.make(ROOT, "a", File())
    disk.remove(ROOT, "a")
    disk.make(ROOT, "d", Directory())
    left = {tuple(disk.after_power_cut(Survival(0.5, 0, 0, seed))) for seed in range(100)}
    assert left == {(), ("a",), ("d",), ("a", "d")}
    assert disk.after_power_cut(NAMES) == {"d": {}}


def test_a_rename_survives_whole_or_not_at_all() -> None:
    """And what had the name before is there if it does not."""
    disk = ModelDisk.of({"a": b"old", "new": b"new"})
    disk.rename(ROOT, "new", "a")
    assert disk.cached() == {"a": b"new"}
    left = {tuple(disk.after_power_cut(Survival(0.5, 0, 0, seed)).items()) for seed in range(100)}
    assert left == {(("a", b"old"), ("new", b"new")), (("a", b"new"),)}


def test_a_file_that_was_synced_is_lost_with_its_name() -> None:
    disk = ModelDisk()
    number = disk.make(ROOT, "f", File())
    disk.append(number, b"x")
    disk.sync(number, 1)
    assert disk.after_power_cut(NOTHING) == {}
    disk.sync(ROOT, 1)
    assert disk.after_power_cut(NOTHING) == {"f": b"x"}


def test_a_cut_may_survive_or_not() -> None:
    disk, number = disk_with_file(b"abcdef")
    disk.resize(number, 2)
    assert disk.cached() == {"f": b"ab"} == disk.after_power_cut(SIZES)
    assert disk.after_power_cut(NOTHING) == {"f": b"abcdef"}


def test_after_a_failed_sync_the_cache_lies_until_it_is_dropped() -> None:
    """A later sync succeeds and brings nothing more."""
    disk, number = disk_with_file()
    disk.append(number, DATA)
    disk.fail_sync(number, disk.count_pending(number), seed=1)
    assert disk.cached() == {"f": DATA}
    disk.sync(number, disk.count_pending(number))
    lost = disk.after_power_cut(EVERYTHING)
    assert lost != {"f": DATA}
    assert disk.cached() == {"f": DATA}
    assert disk.drop_cache(number) == lost["f"] == disk.after_power_cut(NOTHING)["f"]


@pytest.fixture
def layer(tmp_path: Path) -> FileLayer:
    return FileLayer(tmp_path, ModelDisk(), ManualClock())


def test_the_layer_tells_the_disk_what_happens_to_real_files(layer: FileLayer, tmp_path: Path) -> None:
    with layer.installed():
        (tmp_path / "d").mkdir()
        fd = os.open(tmp_path / "d" / "f", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        layer.write(fd, b"hello")
        os.ftruncate(fd, 4)
        assert os.pread(fd, 10, 0) == b"hell"
        layer.fsync(fd)
        os.close(fd)
        (tmp_path / "g").open("xb").close()
        (tmp_path / "g").unlink()
    assert read_tree(tmp_path) == {"d": {"f": b"hell"}} == layer.disk.cached()
    assert layer.disk.after_power_cut(NOTHING) == {}
    assert layer.disk.after_power_cut(NAMES_AND_SIZES) == {"d": {"f": b"hell"}}
    assert layer.open_descriptors() == []
    changes = [call for call in layer.calls if call not in {"open", "close", "pread"}]
    assert changes == ["mkdir", "create", "write", "ftruncate", "fsync", "create", "unlink"]


def test_calls_fail_where_they_are_told_to(layer: FileLayer, tmp_path: Path) -> None:
    layer.fault = Fault(1, errno.ENOSPC, short=True)
    with layer.installed():
        fd = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        assert layer.write(fd, b"half") == 2
        with pytest.raises(OSError, match="No space left"):
            layer.write(fd, b"lf")
        layer.heal()
        assert layer.write(fd, b"lf") == 2
        layer.fault = Fault(0, errno.EMFILE, lasts=True)
        for _ in range(2):
            with pytest.raises(OSError, match="Too many open files"):
                os.open(tmp_path / "f", os.O_RDONLY)
        os.close(fd)
    assert read_tree(tmp_path) == {"f": b"half"}


def test_a_call_that_nobody_made_so_far_is_noticed(layer: FileLayer, tmp_path: Path) -> None:
    with layer.installed(), pytest.raises(AssertionError, match="symlink"):
        (tmp_path / "a").symlink_to(tmp_path / "b")
