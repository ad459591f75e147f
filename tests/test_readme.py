"""README.md says what the code does: every setting, every command, every option."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update_readme", ROOT / "scripts" / "update_readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_those_of_the_code(script: ModuleType) -> None:
    """README.md holds exactly the tables that `make docs` would write."""
    assert script.render_settings() in README
    assert script.render_commands() in README
    assert script.render_spark_options() in README
    assert script.updated(README) == README


def test_every_command_and_option_is_named(script: ModuleType) -> None:
    """No command and no option is missing, however the tables are made."""
    for command, context in script.leaf_commands():
        start = README.index(f"#### `{context.command_path}")
        section = README[start : README.find("####", start + 4)]
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                for name in parameter.opts:
                    assert name in section, f"{context.command_path} {name}"
            else:
                assert parameter.make_metavar(context) in section


def test_every_setting_is_named(script: ModuleType) -> None:
    """Each key stands in a table of its component."""
    for component, (title, _) in script._PARTS.items():
        section = README.split(f"### {title}\n")[1].split("\n### ")[0]
        for item in component.settings():
            assert f"| `{item.key}` |" in section


def test_no_package_index_is_promised() -> None:
    """No document and no error advises to install the project by its name, under which no index has it."""
    modules = [path for package in ("kafka2011", "pyspark_kafka2011", "zk") for path in (ROOT / package).rglob("*.py")]
    for path in (*ROOT.glob("*.md"), *ROOT.glob("integration/**/*.md"), *modules):
        assert not re.search(r"pip install \W*kafka2011(?!-\d)", path.read_text(encoding="utf-8")), path


def test_links_lead_somewhere() -> None:
    """Links to files and headings of this repository are not broken."""
    headings = {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target.startswith("#"):
            assert target[1:] in headings
        elif "://" not in target:
            assert (ROOT / target).exists()
