"""The documents say what the code does: every setting, every command, every option."""

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
DOCS = ROOT / "docs"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update_docs", ROOT / "scripts" / "update_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_tables_are_those_of_the_code(script: ModuleType) -> None:
    """The documents hold exactly the tables that `make docs` would write."""
    for file, (name, text) in script.generated().items():
        assert text in read(file)
        assert script.updated(read(file), name, text) == read(file)


def test_every_command_and_option_is_named(script: ModuleType) -> None:
    """No command and no option is missing, however the tables are made."""
    commands = read("commands.md")
    for command, context in script.leaf_commands():
        start = commands.index(f"## `{context.command_path}")
        section = commands[start : commands.find("\n## ", start + 4)]
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                for name in parameter.opts:
                    assert name in section, f"{context.command_path} {name}"
            else:
                assert parameter.make_metavar(context) in section


def test_every_setting_is_named(script: ModuleType) -> None:
    """Each key stands in a table of its component."""
    for component, (title, _) in script._PARTS.items():
        section = read("settings.md").split(f"## {title}\n")[1].split("\n## ")[0]
        for item in component.settings():
            assert f"| `{item.key}` |" in section


def test_no_package_index_is_promised() -> None:
    """No document and no error advises to install the project by its name, under which no index has it."""
    modules = [path for package in ("kafka2011", "pyspark_kafka2011", "zk") for path in (ROOT / package).rglob("*.py")]
    for path in (*DOCUMENTS, *ROOT.glob("integration/**/*.md"), *modules):
        assert not re.search(r"pip install \W*kafka2011(?!-\d)", path.read_text(encoding="utf-8")), path


def headings_of(path: Path) -> set[str]:
    found = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """Links to files and headings of this repository are not broken."""
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), target
        if heading:
            assert heading in headings_of(linked), target


def test_tests_that_the_documents_name_exist() -> None:
    """Whoever reads that a claim is held by a test can run it."""
    named = [
        (path.name, file, test)
        for path in DOCUMENTS
        for file, test in re.findall(r"\b((?:tests|integration)/[\w/]+\.py)::(\w+)", path.read_text(encoding="utf-8"))
    ]
    assert named
    missing = [
        f"{document}: {file}::{test}"
        for document, file, test in named
        if not (ROOT / file).is_file() or f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert not missing


def test_files_that_the_documents_name_exist() -> None:
    """Nobody is sent to a module that has moved."""
    missing = [
        f"{path.name}: {file}"
        for path in DOCUMENTS
        for file in re.findall(r"`((?:kafka2011|zk|scripts|examples)/[\w/]+\.\w+)`", path.read_text(encoding="utf-8"))
        if not (ROOT / file).exists()
    ]
    assert not missing


@pytest.mark.parametrize("package", ["consumer", "producer"])
def test_the_architecture_names_every_file_of_the_clients(package: str) -> None:
    """A newcomer finds the room of a line by its name."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text[text.index(f"| `{package}/` |") :].split("\n\n")[0]
    files = {path.stem for path in (ROOT / "kafka2011" / package).glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`(\w+)`", table)) >= files
