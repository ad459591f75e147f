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


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "abfs", "abfss", "wasbs", "S3A"])
def test_object_stores_are_refused_with_the_way_on(scheme: str) -> None:
    """A rename there is no fence."""
    with pytest.raises(WarehouseError, match="no directory is renamed atomically"):
        location_of(f"{scheme}://bucket/warehouse")


@pytest.mark.parametrize("given", ["ftp://host/x", "/", "file:///"])
def test_other_places_are_refused(given: str) -> None:
    """What is not known to rename atomically, and a root, which has nothing beside it."""
    with pytest.raises(WarehouseError):
        location_of(given)


def test_hdfs_needs_a_session() -> None:
    """Its URI stays as it is, and Hadoop comes with Spark."""
    location = location_of("hdfs://namenode:8020/warehouse/")
    assert location == "hdfs://namenode:8020/warehouse"
    with pytest.raises(WarehouseError, match="Spark"):
        files_of(location)


def test_a_table_is_called_like_a_topic() -> None:
    """So that no name leads out of the warehouse."""
    assert table_of("/warehouse", "views") == "/warehouse/views"
    with pytest.raises(InvalidTopicError):
        table_of("/warehouse", "../views")
