"""Commands whose extra is not installed."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kafka2011.errors import missing_extra

ROOT = Path(__file__).parent.parent.parent
NOWHERE = ("--zookeeper", "127.0.0.1:1")
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from kafka2011.cli.app import main
sys.exit(main(sys.argv[2:]))
"""
PIPELINE = "avro,fastavro,jinja2,matplotlib,numpy,psutil"
SPARK = "pyspark,py4j,pyarrow,pandas"
ALL = f"{PIPELINE},{SPARK},deltalake,starlette,uvicorn"


def run(missing: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command where some packages cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


@pytest.mark.parametrize(
    ("arguments", "extras"),
    [
        (("audit", *NOWHERE, "--tiers", "a,b"), "pipeline"),
        (("collect", "--as", "access-log", "--topic", "t", "--state", "STATE", "FILE", *NOWHERE), "pipeline"),
        (("collect", "--audit", "a", "--as", "access-log", "--topic", "t", "--state", "STATE", "FILE"), "pipeline"),
        (("consume", "--topic", "t", "--decode", *NOWHERE), "pipeline"),
        (("consume", "--topic", "t", "--audit", "a", *NOWHERE), "pipeline"),
        (("demo", "--tiers", "all"), "demo"),
        (("export", "FILE", "--into", "STATE"), "warehouse"),
        (("generate", *NOWHERE), "pipeline"),
        (("load", *NOWHERE, "--warehouse", "STATE", "--topic", "t"), "load,spark"),
        (("load", *NOWHERE, "--warehouse", "STATE", "--topic", "t", "--master", "none"), "load"),
        (("mirror", "--from", "a:1", "--to", "a:1/x", "--group", "g", "--whitelist", "t", "--audit", "a"), "pipeline"),
        (("report", "--warehouse", "STATE", "--into", "STATE"), "pipeline,spark,warehouse"),
        (("schemas", "list", *NOWHERE), "pipeline"),
        (("ui", *NOWHERE), "ui"),
        (("tables", "compact", "--warehouse", "STATE", "--topic", "t"), "load"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_command_says_which_extras_it_needs(arguments: tuple[str, ...], extras: str, tmp_path: Path) -> None:
    """In words that work for a wheel too: pip takes what is installed, and adds what is missing."""
    (tmp_path / "file").touch()
    names = {"STATE": str(tmp_path / "state"), "FILE": str(tmp_path / "file")}
    done = run(ALL, *(names.get(each, each) for each in arguments))
    assert done.returncode == 1
    assert done.stderr.endswith(f" is not installed: pip install 'kafka2011[{extras}]'\n")
    assert "Traceback" not in done.stderr


def test_a_broker_needs_one_only_to_show_metrics(tmp_path: Path) -> None:
    """It says so before it touches anything."""
    settings = ("brokerid=0", f"log.dir={tmp_path}/logs", "enable.zookeeper=false", "port=0", "metrics.port=0")
    done = run("prometheus_client", "broker", *(text for each in settings for text in ("--override", each)))
    assert done.returncode == 1
    assert done.stderr.endswith("prometheus_client is not installed: pip install 'kafka2011[metrics]'\n")
    assert not (tmp_path / "logs").exists()


def test_a_checkout_that_is_not_installed_is_where_pip_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index might have another project of that name."""

    def unknown(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", unknown)
    error = missing_extra(ModuleNotFoundError(name="fastavro.schema"))
    assert str(error) == "fastavro is not installed: pip install '.[pipeline]' in a checkout of kafka2011"


def test_what_is_broken_is_no_missing_extra() -> None:
    """What every installation has, and cannot be imported, is an internal error."""
    assert "internal error: ModuleNotFoundError" in run("javaproperties", "broker").stderr


def test_a_load_on_spark_needs_both_extras(tmp_path: Path) -> None:
    """Where only that of loads is installed."""
    done = run("pyspark,py4j", "load", *NOWHERE, "--warehouse", str(tmp_path), "--topic", "t")
    assert done.stderr.endswith("pyspark is not installed: pip install 'kafka2011[load,spark]'\n")


def test_the_extra_of_loads_suffices_without_spark(tmp_path: Path) -> None:
    """The load gets as far as ZooKeeper, where nobody is."""
    others = "jinja2,matplotlib,psutil,pyspark,py4j,pandas,starlette,uvicorn,prometheus_client"
    timeout = ("--option", "zk.connectiontimeout.ms=50")
    done = run(others, "load", *NOWHERE, "--warehouse", str(tmp_path), "--topic", "t", "--master", "none", *timeout)
    assert "no ZooKeeper answered" in done.stderr
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    names = {re.split(r"[>\[]", text)[0] for text in (*extras["load"], *extras["warehouse"])} - {"kafka2011"}
    assert not names & set(others.split(","))


HELPS = """
import click
from kafka2011.cli.app import cli
def walk(group, names):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        status = main([*names, name, "--help"])
        if status:
            print("no help:", *names, name)
        if isinstance(command, click.Group):
            walk(command, [*names, name])
walk(cli, [])
"""


def test_help_needs_no_extra() -> None:
    """Of any command."""
    program = WITHOUT.replace("sys.exit(main(sys.argv[2:]))", HELPS)
    done = subprocess.run([sys.executable, "-c", program, ALL], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: kafka2011 tables clean" in done.stdout
    assert "--scraper-rate" in done.stdout
    assert "no help:" not in done.stdout
