"""The file of an index: what was stored comes back, or all of it counts as lost."""

from __future__ import annotations

import json
import time
import zlib
from array import array
from typing import TYPE_CHECKING

import pytest

from kafka2011.disk import Disk
from kafka2011.gateway.numbering.boundaries import Boundary, Seal, Tail
from kafka2011.gateway.numbering.entries import Entries
from kafka2011.gateway.numbering.index_file import IndexDirectory
from kafka2011.gateway.numbering.partition_index import PartitionIndex
from kafka2011.gateway.numbering.stores import AnchorsError, AnchorState, Stored
from tests.models.gateway.toys import MESSAGE_BYTES, Steps, ToyAnchors, ToyLog, find_pieces, plain
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEALS = (Seal(0, 10, 2**32 - 1), Seal(10, 20, 7))


def stored(places: int = 3, *, generation: int = 2, entries: Entries | None = None) -> Stored:
    entries = Entries(Boundary(100 * index, 10 * index) for index in range(places)) if entries is None else entries
    end = Boundary(100 * places, 10 * places)
    senders = {"producers": [], "marks": ["00ff"], "repeats": [5]}
    ahead, anchored = (Boundary(1000, 77),), (Boundary(0, 0), end)
    times = [[end.position, 1_700_000_000_000, 0]]
    return Stored(generation, 2**40, Boundary(0, 0), end, Tail(*end, SEALS), ahead, anchored, senders, entries, times)


def places_of(loaded: Stored | None) -> list[Boundary]:
    assert loaded is not None
    return [loaded.entries[index] for index in range(len(loaded.entries))]


def test_what_was_stored_comes_back(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "clicks-0"
    assert IndexDirectory(directory).load() is None
    IndexDirectory(directory).store(stored())
    loaded = IndexDirectory(directory).load()
    assert places_of(loaded) == [Boundary(0, 0), Boundary(100, 10), Boundary(200, 20)]
    assert loaded is not None
    assert loaded == stored()._replace(entries=loaded.entries)


def test_gateways_before_and_after_the_times_read_each_others_index(tmp_path: Path) -> None:
    """The older one reads keys by name, of the same version and with the same entries, and writes no times."""
    IndexDirectory(tmp_path).store(stored())
    _, _, content = (tmp_path / "state").read_bytes().partition(b"\n")
    document = json.loads(content)
    assert document["version"] == 1
    assert document.pop("times") == stored().times
    assert set(document) == {
        "version",
        "generation",
        "file",
        "entries",
        "checksum",
        "reserved",
        "start",
        "end",
        "tail",
        "ahead",
        "anchored",
        "senders",
    }
    content = json.dumps(document).encode()
    (tmp_path / "state").write_bytes(b"%08x\n%b" % (zlib.crc32(content), content))
    loaded = IndexDirectory(tmp_path).load()
    assert loaded is not None
    assert loaded.times is None
    assert places_of(loaded) == places_of(stored())


def test_anchors_without_times_are_read() -> None:
    """An older gateway writes them so."""
    end = Boundary(5, 6)
    state = AnchorState(3, 100, Tail(*end), (Boundary(0, 0), end), end, stored().senders, [[5, 1_000, 0]])
    assert AnchorState.of(state.text()) == state
    document = json.loads(state.text())
    assert document["version"] == 1
    assert document.pop("times") == [[5, 1_000, 0]]
    assert set(document) == {"version", "generation", "reserved", "tail", "places", "end", "senders"}
    assert AnchorState.of(json.dumps(document)) == state._replace(times=None)


def test_entries_are_appended(tmp_path: Path) -> None:
    file = IndexDirectory(tmp_path)
    file.store(stored(3))
    for writer in (file, IndexDirectory(tmp_path)):
        before = writer.load()
        assert before is not None
        before.entries.add(Boundary(before.entries.positions[-1] + 50, before.entries.numbers[-1] + 1))
        writer.store(before)
    assert [place.position for place in places_of(IndexDirectory(tmp_path).load())] == [0, 100, 200, 250, 300]
    assert [path.name for path in tmp_path.glob("entries.*")] == ["entries.1"]
    assert (tmp_path / "entries.1").stat().st_size == 5 * 16


def test_what_a_crash_left_behind_the_entries_is_ignored(tmp_path: Path) -> None:
    IndexDirectory(tmp_path).store(stored(3))
    with (tmp_path / "entries.1").open("ab") as out:
        out.write(b"torn")
    file = IndexDirectory(tmp_path)
    loaded = file.load()
    assert loaded is not None
    loaded.entries.add(Boundary(300, 30))
    file.store(loaded)
    assert len(places_of(IndexDirectory(tmp_path).load())) == 4


def _tear_state(directory: Path) -> None:
    text = (directory / "state").read_bytes()
    (directory / "state").write_bytes(text[:-9])


def _change_state(directory: Path) -> None:
    text = (directory / "state").read_bytes()
    (directory / "state").write_bytes(text.replace(b'"generation":2', b'"generation":3'))


def _tear_entries(directory: Path) -> None:
    data = (directory / "entries.1").read_bytes()
    (directory / "entries.1").write_bytes(data[:-1])


def _change_entries(directory: Path) -> None:
    data = (directory / "entries.1").read_bytes()
    (directory / "entries.1").write_bytes(data[:20] + b"x" + data[21:])


HARMS: dict[str, Callable[[Path], object]] = {
    "torn state": _tear_state,
    "changed state": _change_state,
    "torn entries": _tear_entries,
    "changed entries": _change_entries,
    "no state": lambda directory: (directory / "state").unlink(),
    "no entries": lambda directory: (directory / "entries.1").unlink(),
    "empty state": lambda directory: (directory / "state").write_bytes(b""),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_torn_or_missing_file_counts_as_lost_and_a_new_one_is_begun(
    harm: Callable[[Path], object], tmp_path: Path
) -> None:
    IndexDirectory(tmp_path).store(stored())
    harm(tmp_path)
    file = IndexDirectory(tmp_path)
    assert file.load() is None
    file.store(stored(5))
    assert len(places_of(IndexDirectory(tmp_path).load())) == 5


def test_a_tail_that_was_noted_later_counts(tmp_path: Path) -> None:
    file = IndexDirectory(tmp_path)
    file.store(stored())
    for position in (400, 500, 600):
        file.note(2, Tail(position, position // 10, SEALS[:1]))
    loaded = IndexDirectory(tmp_path).load()
    assert loaded is not None
    assert loaded.tail == Tail(600, 60, SEALS[:1])
    assert loaded.end == Boundary(300, 30)


def test_a_torn_tail_leaves_the_one_before(tmp_path: Path) -> None:
    file = IndexDirectory(tmp_path)
    file.store(stored())
    file.note(2, Tail(400, 40))
    file.note(2, Tail(500, 50))  # in the first slot
    data = (tmp_path / "tail").read_bytes()
    (tmp_path / "tail").write_bytes(data[:20] + b"\xff" + data[21:])
    loaded = IndexDirectory(tmp_path).load()
    assert loaded is not None
    assert loaded.tail == Tail(400, 40)


@pytest.mark.parametrize("tail", [Tail(200, 20), Tail(9000, 900)])
def test_a_tail_that_is_older_or_of_another_generation_does_not_count(tail: Tail, tmp_path: Path) -> None:
    file = IndexDirectory(tmp_path)
    file.note(1 if tail.position == 9000 else 2, tail)
    file.store(stored())
    loaded = IndexDirectory(tmp_path).load()
    assert loaded is not None
    assert loaded.tail == stored().tail


def test_a_new_generation_has_a_file_of_its_own(tmp_path: Path) -> None:
    file = IndexDirectory(tmp_path)
    file.store(stored(5))
    file.store(stored(1, generation=3))
    assert places_of(IndexDirectory(tmp_path).load()) == [Boundary(0, 0)]
    assert [path.name for path in tmp_path.glob("entries.*")] == ["entries.2"]


class KilledError(BaseException):
    """The process ends here."""


class FragileDisk(Disk):
    """A disk before one of whose calls the process ends."""

    def __init__(self, kill_at: int) -> None:
        self.left = kill_at

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KilledError

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._step()
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        self._step()
        super().fsync(fd)

    def unlink(self, path: Path) -> None:
        self._step()
        super().unlink(path)


@pytest.mark.parametrize("generation", [2, 3])
def test_a_kill_at_any_step_leaves_what_was_stored_before_or_after(generation: int, tmp_path: Path) -> None:
    outcomes = set()
    for step in range(1, 20):
        directory = tmp_path / str(step)
        IndexDirectory(directory).store(stored(3))
        file = IndexDirectory(directory, FragileDisk(step))
        before = file.load()
        assert before is not None
        before.entries.add(Boundary(300, 30))
        entries = before.entries if generation == 2 else Entries([Boundary(0, 0)])
        try:
            file.store(before._replace(generation=generation, entries=entries))
            killed = False
        except KilledError:
            killed = True
        outcomes.add((killed, len(places_of(IndexDirectory(directory).load()))))
        if not killed:
            break
    assert outcomes == {(True, 3), (True, 4 if generation == 2 else 1), (False, 4 if generation == 2 else 1)}


def test_what_retention_dropped_leaves_the_file_in_the_end(tmp_path: Path) -> None:
    file = IndexDirectory(tmp_path)
    entries = Entries(Boundary(100 * index, 10 * index) for index in range(10_000))
    file.store(stored(10_000, entries=entries))
    for start in (20_000, 700_000, 900_000, 2_000_000):
        entries.drop_before(start)
        entries.add(Boundary(entries.positions[-1] + 100 if len(entries) else start, 10**6 + start))
        file.store(stored(10_000, entries=entries)._replace(start=Boundary(start, start // 10)))
        loaded = IndexDirectory(tmp_path).load()
        assert loaded is not None
        assert loaded.entries.positions == entries.positions
        assert loaded.entries.numbers == entries.numbers
    assert sum(path.stat().st_size for path in tmp_path.glob("entries.*")) < 5000 * 16


def test_a_log_of_ten_gigabytes_opens_quickly(tmp_path: Path) -> None:
    count = 160_000
    entries = Entries()
    entries.positions, entries.numbers = (
        array("q", range(0, count * 65536, 65536)),
        array("q", range(0, count * 300, 300)),
    )
    end = Boundary(count * 65536, count * 300)
    IndexDirectory(tmp_path).store(stored(entries=entries)._replace(end=end, tail=Tail(*end), ahead=()))
    log = ToyLog(end.position)
    log.earliest = lambda: 0  # type: ignore[method-assign]
    index = PartitionIndex(log, find_pieces, IndexDirectory(tmp_path), ToyAnchors(Steps()))
    begun_s = time.process_time()
    index.open()
    assert time.process_time() - begun_s < 1
    assert index.find(count * 150 + 7) == Boundary(count // 2 * 65536, count * 150)


def test_an_index_works_with_its_file(tmp_path: Path) -> None:
    log, anchors = ToyLog(), ToyAnchors(Steps())
    log.append(*map(plain, range(100)))
    for _ in range(3):
        index = PartitionIndex(log, find_pieces, IndexDirectory(tmp_path), anchors)
        index.open()
        while index.take(log.read(index.end.position, 1000)):
            pass
        assert index.end == Boundary(log.latest(), log.latest() // MESSAGE_BYTES)
        log.append(*map(plain, range(50)))


def test_anchors_that_are_none_are_refused() -> None:
    state = AnchorState(3, 100, Tail(5, 6, SEALS), (Boundary(0, 0), Boundary(5, 6)))
    assert AnchorState.of(state.text()) == state
    for text in (
        "",
        "[]",
        "{}",
        state.text().replace("tail", "tale"),
        state.text().replace('"version":1', '"version":2'),
    ):
        with pytest.raises(AnchorsError):
            AnchorState.of(text)


DEFECTS = [
    defect for defect in read_defects("gateway_numbering").values() if defect.shows.get("file") == "test_index_file"
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, tmp_path: Path) -> None:
    """The scenario passes without it, and fails with it."""
    check: Callable[..., None] = globals()[defect.shows["noticed_by"]]
    with planted(defect), pytest.raises(AssertionError):
        check(*[HARMS[word] for word in defect.shows.get("with", [])], tmp_path)
