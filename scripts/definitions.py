"""Finds the classes and functions of packages in their sources, without importing them.

A short name stands for a definition wherever it moves: `Log.append`, or `recovery.recover` for a function of a module.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("kafka2011", "zk", "pyspark_kafka2011")

Node = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Definition(NamedTuple):
    """A class or function, the module that defines it, and its name in that module."""

    module: str
    qualname: str
    node: Node

    @property
    def full_name(self) -> str:
        """The names of module and definition, with a dot between."""
        return f"{self.module}.{self.qualname}"

    @property
    def lines(self) -> int:
        """How many lines it has, from `class` or `def` to its end; decorators come before."""
        assert self.node.end_lineno is not None
        return self.node.end_lineno - self.node.lineno + 1

    def has_name(self, short_name: str) -> bool:
        """Return whether a name stands for it: its full name, or the end of that."""
        return f".{self.full_name}".endswith(f".{short_name}")


def module_paths(packages: Iterable[str] = PACKAGES, root: Path = ROOT) -> dict[str, Path]:
    """Return the file of each module, by the module's name."""
    paths = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def definitions_of(module: str, tree: ast.Module) -> list[Definition]:
    """Return the classes and functions of a module, those inside others included."""
    return [Definition(module, qualname, node) for qualname, node in _walk(tree, "")]


def _walk(parent: ast.AST, prefix: str) -> Iterator[tuple[str, Node]]:
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, Node):
            qualname = prefix + child.name
            yield qualname, child
            yield from _walk(child, f"{qualname}." if isinstance(child, ast.ClassDef) else f"{qualname}.<locals>.")
        else:
            yield from _walk(child, prefix)
