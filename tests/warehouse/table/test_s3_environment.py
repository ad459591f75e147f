"""What of S3's environment is missing is named before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.cli.app import main
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.s3_environment import check_environment, endpoint, region

if TYPE_CHECKING:
    from pathlib import Path

URI = "s3://bucket/warehouse"
REGION = {"AWS_REGION": "eu-central-1"}
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
ALONE = {"AWS_EC2_METADATA_DISABLED": "true"}


@pytest.mark.parametrize(
    ("environment", "missing"),
    [
        ({}, "AWS_REGION and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are"),
        (KEYS, "AWS_REGION is"),
        ({**REGION, "AWS_ACCESS_KEY_ID": "a"}, "AWS_SECRET_ACCESS_KEY is"),
        ({**REGION, "AWS_SECRET_ACCESS_KEY": "b"}, "AWS_ACCESS_KEY_ID is"),
        ({**REGION, **ALONE}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}, "AWS_REGION is"),
    ],
)
def test_what_is_missing_is_named(environment: dict[str, str], missing: str, tmp_path: Path) -> None:
    """Region and keys, as far as nothing stands for them."""
    with pytest.raises(WarehouseError, match=f"^{URI}: {missing} not set"):
        check_environment(URI, environment, tmp_path)


@pytest.mark.parametrize(
    "environment",
    [
        {**REGION, **KEYS},
        {"AWS_DEFAULT_REGION": "eu-central-1", **KEYS, **ALONE},
        REGION,  # the machine may have a role
        {**REGION, **ALONE, "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"},
    ],
)
def test_what_suffices_is_taken(environment: dict[str, str], tmp_path: Path) -> None:
    """Nothing is asked of the network for that."""
    check_environment(URI, environment, tmp_path)
    assert region(environment) == "eu-central-1"
    assert endpoint({**environment, "AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"}) == "http://b"


def test_a_profile_may_say_all_of_it(tmp_path: Path) -> None:
    """In the home, or in a file that a variable names."""
    (tmp_path / "profiles").touch()
    check_environment(URI, {"AWS_CONFIG_FILE": str(tmp_path / "profiles")}, tmp_path)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").touch()
    check_environment(URI, {}, tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("load", "--zookeeper", "127.0.0.1:1", "--topic", "views"),
        ("report", "--into", "INTO"),
        ("tables", "status", "--topic", "views"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_say_so_first(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before Spark starts, and before ZooKeeper is asked."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", *KEYS):
        monkeypatch.delenv(name, raising=False)
    arguments = tuple(str(tmp_path / "into") if text == "INTO" else text for text in arguments)
    assert main([*arguments, "--warehouse", URI]) == 1
    assert f"error: {URI}" in (said := capsys.readouterr().err)
    assert "AWS_REGION and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set" in said
