"""Results on disk: whole, numbered, one at a time."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from kafka2011.reports.results import Derivation, Results
from kafka2011.warehouse.errors import OvertakenError, WarehouseError

DAYS = (date(2011, 6, 11), date(2011, 6, 12))


def derivation(number: int) -> Derivation:
    return Derivation(number, 5, "tables", {"logic": 1}, {}, {"views": {"commit": number}}, {"views": DAYS})


def publish(results: Results, number: int, text: str = "rows") -> Path:
    with results.staging() as staging:
        for day in DAYS:
            (staging / "views" / f"date={day}").mkdir(parents=True)
            (staging / "views" / f"date={day}" / "a.parquet").write_text(f"{text} of {day}")
        return results.publish(staging, derivation(number))


def test_a_derivation_is_what_was_published(tmp_path: Path) -> None:
    """It is read back as it was, `latest` leads to it, and nothing else is left."""
    with Results(tmp_path / "new" / "reports") as results:
        assert results.newest() is None
        publish(results, 1)
        publish(results, 2, "others")
        assert results.newest() == derivation(2)
        latest = results.directory / "latest"
        assert (latest / "views" / "date=2011-06-11" / "a.parquet").read_text() == "others of 2011-06-11"
        assert list((results.directory / "_staging").iterdir()) == []


def test_a_number_is_published_once(tmp_path: Path) -> None:
    """Whoever comes second fails, and what is there stays."""
    with Results(tmp_path) as results:
        publish(results, 1, "first")
        with pytest.raises(OvertakenError, match="derived=000001 exists already"):
            publish(results, 1, "second")
        assert (results.of(1) / "views" / "date=2011-06-11" / "a.parquet").read_text() == "first of 2011-06-11"


def test_all_is_on_disk_before_it_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and directories of a derivation are synced before the rename, and its name after it."""
    synced: list[tuple[str, bool]] = []
    with Results(tmp_path) as results:
        target = results.of(1)

        def fsync(fd: int) -> None:
            synced.append((Path(f"/proc/self/fd/{fd}").readlink().name, target.exists()))

        monkeypatch.setattr(os, "fsync", fsync)
        publish(results, 1)
    assert {path.name for path in target.rglob("*")} <= {name for name, is_there in synced if not is_there}
    assert (tmp_path.name, True) in synced


def test_only_one_derives_at_a_time(tmp_path: Path) -> None:
    """A second process is refused, until the first one has ended."""
    with Results(tmp_path), pytest.raises(WarehouseError, match="another process is deriving into"), Results(tmp_path):
        pass
    with Results(tmp_path):
        pass


def test_what_a_killed_derivation_left_is_removed(tmp_path: Path) -> None:
    """Its staging directory goes when the next one begins."""
    with Results(tmp_path) as results, results.staging() as staging:
        (staging / "half").write_text("")
        staging.rename(staging.parent / "killed")
    with Results(tmp_path):
        assert not (tmp_path / "_staging").exists()


def test_days_are_taken_over_as_links(tmp_path: Path) -> None:
    """Those that were derived anew are left out; an older derivation can be removed."""
    with Results(tmp_path) as results:
        publish(results, 1)
        with results.staging() as staging:
            results.take_over(1, "views", staging, without={DAYS[1]})
            results.publish(staging, derivation(2))
        results.remove_old(1)
        assert results.numbers() == [2]
        [file] = results.of(2).rglob("*.parquet")
        assert file.parent.name == "date=2011-06-11"
        assert file.read_text() == "rows of 2011-06-11"


def test_latest_is_mended_after_a_crash(tmp_path: Path) -> None:
    """A link that was half made does not stand in the way."""
    with Results(tmp_path) as results:
        publish(results, 1)
        publish(results, 2)
        (tmp_path / "latest").unlink()
        (tmp_path / "latest.new").symlink_to("derived=000001")
        results.point_to(2)
        assert (tmp_path / "latest").readlink().name == "derived=000002"


@pytest.mark.parametrize("text", ["", "{}", '{"version": 2}', "[]", '{"version": 1, "number": "x"}'])
def test_a_spoiled_derivation_is_named(tmp_path: Path, text: str) -> None:
    """The error says which file it is."""
    with Results(tmp_path) as results:
        path = publish(results, 1) / "_derived.json"
        path.write_text(text)
        with pytest.raises(WarehouseError, match=r"derived=000001/_derived\.json"):
            results.newest()
        path.unlink()
        with pytest.raises(WarehouseError, match="is missing: remove its directory"):
            results.newest()
