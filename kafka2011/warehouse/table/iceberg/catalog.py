"""The catalogue of a warehouse's Iceberg tables: SQLite inside the warehouse, or any other that pyiceberg knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from sqlalchemy import NullPool, QueuePool, create_engine
from sqlalchemy.exc import IntegrityError, OperationalError

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.locations import location_of, scheme_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog

NAME = "kafka2011"
"""A SQL catalogue keeps the tables of several names apart: whoever reads with another name sees none of ours."""
NAMESPACE = "kafka2011"
SQLITE_NAME = "catalog.db"

_FILE_IO = {"py-io-impl": "kafka2011.warehouse.table.iceberg.synced_io.SyncedFileIO"}
_SQLITE_TIMEOUT_S = 60  # the tables of all topics share one file
_OPENING_TRIES = 3  # whoever is first makes its tables, and another one may be doing that now


def open_catalog(warehouse: str | Path, properties: Mapping[str, str] | None = None) -> Catalog:
    """Open the catalogue with these properties of pyiceberg's; without any, the one inside a local warehouse.

    `name` is its name, if it is not to be `kafka2011`; pyiceberg's own configuration may hold more about it. Raises
    WarehouseError when there is none.
    """
    given = dict(properties or {})
    name = given.pop("name", NAME)
    if not given and name == NAME:
        given = _sqlite_inside(warehouse)
    for tries_left in reversed(range(_OPENING_TRIES)):
        try:
            catalog = load_catalog(name, **(_FILE_IO | given))
            _keep_no_file_open(catalog)
            _ensure_namespace(catalog)
        except OperationalError as error:
            if not tries_left:
                raise WarehouseError(f"the catalogue of {warehouse}: {error}") from error
        except (ValueError, OSError) as error:
            raise WarehouseError(f"the catalogue of {warehouse}: {error}") from error
        else:
            return catalog
    raise AssertionError  # the last try raises or returns


def list_tables(warehouse: str | Path, properties: Mapping[str, str] | None = None) -> list[str]:
    """List the names of our tables in a catalogue, sorted. Raises WarehouseError."""
    return sorted(identifier[-1] for identifier in open_catalog(warehouse, properties).list_tables(NAMESPACE))


def location_of_table(warehouse: str | Path, name: str) -> str:
    """Return the URI of a new table's directory in a local warehouse.

    Two tables never share one, even after one of them was renamed.
    """
    directory = _local(warehouse) / NAMESPACE / name
    if directory.exists():
        directory = directory.with_name(f"{name}-{uuid4().hex[:8]}")
    return f"file://{directory}"


def _local(warehouse: str | Path) -> Path:
    if scheme_of(str(warehouse)) not in {"", "file"}:
        raise WarehouseError(
            f"{warehouse} is no local directory, so SQLite cannot be the catalogue of its tables: name another one,"
            " such as --catalog type=rest --catalog uri=..."
        )
    path = location_of(warehouse)
    if "#" in path or "?" in path:
        raise WarehouseError(f"{path} has a # or a ?, which mean something else in the URIs of Iceberg's files")
    return Path(path)


def _sqlite_inside(warehouse: str | Path) -> dict[str, str]:
    local = _local(warehouse)
    local.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{local}/{SQLITE_NAME}?timeout={_SQLITE_TIMEOUT_S}"}


def _keep_no_file_open(catalog: Catalog) -> None:
    """Have a catalogue in SQLite open its file when it is used: whoever has one never has to close it."""
    if not isinstance(catalog, SqlCatalog):
        return
    engine = catalog.engine
    if engine.dialect.name == "sqlite" and isinstance(engine.pool, QueuePool):  # one in memory has another pool
        engine.dispose()
        catalog.engine = create_engine(engine.url, echo=engine.echo, poolclass=NullPool)


def _ensure_namespace(catalog: Catalog) -> None:
    if catalog.namespace_exists(NAMESPACE):
        return
    try:
        catalog.create_namespace(NAMESPACE)
    except (NamespaceAlreadyExistsError, IntegrityError):  # another one was faster
        if not catalog.namespace_exists(NAMESPACE):
            raise
