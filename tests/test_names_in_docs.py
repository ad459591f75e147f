"""Every name that documents and examples teach can be imported from where they import it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import pytest

from scripts.public_names import ENTRY_POINT, PUBLIC_MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
OURS = ("kafka2011", "pyspark_kafka2011", "zk")
_BLOCK = re.compile(r"^([ ]*)```python\n(.*?)^[ ]*```", re.DOTALL | re.MULTILINE)
_DOTTED = re.compile(r"`(kafka2011(?:\.[a-z_]\w*)+\.\w+)(?:\(.*?\))?`")


class Taught(NamedTuple):
    """One name, and whether the text around it takes attributes of it, as of a module."""

    module: str
    name: str
    is_used_as_module: bool


def _texts() -> Iterator[tuple[str, str]]:
    """Yield Python code that people copy into applications, with where it stands."""
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for number, block in enumerate(_BLOCK.finditer(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(ROOT)}, block {number}", textwrap.dedent(block[2])
    for path in (ROOT / "examples").rglob("*.py"):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def taught_in(text: str) -> Iterator[Taught]:
    """Yield the names of ours that Python code imports."""
    tree = ast.parse(text)
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    owners = {value.id for value in values if isinstance(value, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield Taught(node.module, alias.name, (alias.asname or alias.name) in owners)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield Taught(alias.name, "", is_used_as_module=True)


TAUGHT = sorted(
    {(where, each) for where, text in _texts() for each in taught_in(text) if each.module.split(".")[0] in OURS}
)


def test_code_is_found() -> None:
    """A page whose blocks are marked in another way would pass untested."""
    assert len(TAUGHT) > 40
    assert ("docs/how-to/load.md, block 0", Taught("kafka2011.warehouse", "load", is_used_as_module=False)) in TAUGHT


@pytest.mark.parametrize(("where", "taught"), TAUGHT, ids=lambda value: value if isinstance(value, str) else value.name)
def test_a_name_that_is_taught_can_be_imported(where: str, taught: Taught) -> None:
    """It is what the code uses it for: a module only where the code takes attributes of it."""
    module = importlib.import_module(taught.module)
    if taught.module != ENTRY_POINT:
        assert taught.module in PUBLIC_MODULES, f"{where}: {taught.module} is not public (scripts/public_names.py)"
    if not taught.name:
        return
    assert taught.name in module.__all__, f"{where}: {taught.name} is not public in {taught.module}"
    value = getattr(module, taught.name)
    assert taught.is_used_as_module or not isinstance(value, ModuleType), f"{where}: {taught.name} is a module"


def test_names_in_the_text_of_documents_exist() -> None:
    """Each `kafka2011.module.name` in prose is public."""
    found = {
        dotted for path in (ROOT / "docs").rglob("*.md") for dotted in _DOTTED.findall(path.read_text(encoding="utf-8"))
    }
    assert "kafka2011.reports.dated" in found
    for dotted in found:
        home, _, name = dotted.rpartition(".")
        assert home in PUBLIC_MODULES, dotted
        assert name in importlib.import_module(home).__all__, dotted


def test_public_names_are_not_those_of_modules_beside_them() -> None:
    """An import of such a module would put it in the place of the name, in the package."""
    packages = [
        found.name
        for root in OURS
        for found in pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}.")
        if found.ispkg
    ]
    checked = 0
    for name in (*OURS, *packages):
        package = importlib.import_module(name)
        public = set(getattr(package, "__all__", ()))
        checked += bool(public)
        assert not public & {module.name for module in pkgutil.iter_modules(package.__path__)}, name
    assert checked > 3
