"""Where a warehouse may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.message.topic import InvalidTopicError
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.locations import files_of, location_of, table_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_local_directory_is_its_path(tmp_path: Path) -> None:
    """With and without a scheme, links followed, so that staging beside it is on its file system."""
    (tmp_path / "link").symlink_to(tmp_path / "warehouse dir")
    expected = f"{tmp_path}/warehouse dir"
    for given in (f"{tmp_path}/link/", tmp_path / "warehouse dir", f"file://{tmp_path}/warehouse%20dir"):
        assert location_of(given) == expected
    assert isinstance(files_of(expected), LocalFiles)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("hdfs://namenode:8020/warehouse/", "hdfs://namenode:8020/warehouse"),
        ("hdfs://service//a/b", "hdfs://service/a/b"),
        ("S3A://bucket/warehouse", "s3://bucket/warehouse"),
    ],
)
def test_a_store_is_a_uri(given: str, expected: str) -> None:
    """With one slash between two names, and with the scheme by which all of its clients know it."""
    assert location_of(given) == expected


@pytest.mark.parametrize(
    "given",
    ["ftp://host/x", "gs://b/w", "/", "file:///", "s3://bucket", "s3:///w", "hdfs://nn:8020/", "s3://b/../w"],
)
def test_other_places_are_refused(given: str) -> None:
    """What was never tried, and a root, which has nothing beside it."""
    with pytest.raises(WarehouseError):
        location_of(given)


def test_keys_in_a_path_are_refused_and_not_repeated() -> None:
    """They would be in every error and log."""
    with pytest.raises(WarehouseError, match="password") as refused:
        location_of("s3://key:secret@bucket/warehouse")
    assert "secret" not in str(refused.value)


def test_a_table_is_called_like_a_topic() -> None:
    """So that no name leads out of the warehouse."""
    assert table_of("/warehouse", "views") == "/warehouse/views"
    with pytest.raises(InvalidTopicError):
        table_of("/warehouse", "../views")
