"""Patches of functions that quote syntax instead of lines: the layout of the code, comments and brackets do not matter.

A patch names a function by the end of its full name (`Log.append`), so it outlives a move of the module. `old` is an
expression or some statements that follow each other, and stands there exactly once; `new` takes its place. A capital
letter in `old` stands for any expression, and a body `...` for any statements; in `new` they stand for the same ones.
"""

from __future__ import annotations

import ast
import copy
import itertools
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scripts.definitions import Definition, Node, definitions_of, module_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Values = dict[str, Any]
"""What the letters of a pattern, and its `...`, stand for."""
_ANY_BODY = "..."

DIRECTORY = Path(__file__).parent


class PatchError(Exception):
    """A patch does not apply: its function or what it replaces is not there, or is there more than once."""


class Patch(NamedTuple):
    """One change to a function."""

    function: str
    old: str
    new: str

    def changed(self) -> Definition:
        """Return the function with the change made. Raises PatchError."""
        definition = function_named(self.function)
        return definition._replace(node=self.apply(definition.node))

    def apply(self, node: Node) -> Node:
        """Return a copy of a function's tree with the change made. Raises PatchError."""
        changed = copy.deepcopy(node)
        places = list(_places(self, changed))
        if len(places) != 1:
            raise PatchError(f"{self.old!r} stands {len(places)} times in {self.function}")
        places[0].replace(_body(self.new))
        return ast.fix_missing_locations(changed)

    def stands_in(self, node: Node) -> bool:
        """Return whether what the patch replaces stands in a tree exactly once."""
        return len(list(_places(self, node))) == 1


class Defect(NamedTuple):
    """A named defect: the patches that make it, and how it shows."""

    name: str
    patches: tuple[Patch, ...]
    shows: Mapping[str, Any]
    """What a model or a run has to do to meet it."""


def read_defects(name: str) -> dict[str, Defect]:
    """Return the defects of one file in this directory, by their names."""
    text = (DIRECTORY / f"{name}.toml").read_text()
    return {defect: _defect(defect, table) for defect, table in tomllib.loads(text).items()}


def _defect(name: str, table: dict[str, Any]) -> Defect:
    tables = [table, table["also"]] if "also" in table else [table]
    patches = tuple(Patch(patch["in"], patch["old"], patch["new"]) for patch in tables)
    shows = {key: value for key, value in table.items() if key not in {"in", "old", "new", "also"}}
    return Defect(name, patches, shows)


def problems() -> Iterator[str]:
    """Say which patches do not apply, and where else what they replace stands."""
    for path in sorted(DIRECTORY.glob("*.toml")):
        for defect in read_defects(path.stem).values():
            for patch in defect.patches:
                try:
                    patch.changed()
                except PatchError as error:
                    functions = itertools.chain.from_iterable(map(_functions_of, _texts()))
                    places = [function.full_name for function in functions if patch.stands_in(function.node)]
                    hint = f"; it stands in {', '.join(places)}" if places else ""
                    yield f"tests/planted/{path.name}: {defect.name}: {error}{hint}"


@cache
def function_named(short_name: str) -> Definition:
    """Return the one function whose full name ends so; of a property, its getter. Raises PatchError."""
    *owners, name = short_name.split(".")
    candidates = [
        function
        for module, text in _texts().items()
        if f"def {name}(" in text and (not owners or owners[-1] in f"{module} {text}")
        for function in _functions_of(module)
        if function.has_name(short_name)
    ]
    places = sorted({function.full_name for function in candidates})
    if len(places) != 1:
        raise PatchError(f"{short_name} is the name of {len(places)} functions ({', '.join(places) or 'none'})")
    return candidates[0]


@cache
def _texts() -> dict[str, str]:
    return {module: path.read_text() for module, path in module_paths().items()}


@cache
def _functions_of(module: str) -> list[Definition]:
    definitions = definitions_of(module, ast.parse(_texts()[module]))
    return [definition for definition in definitions if not isinstance(definition.node, ast.ClassDef)]


class _Place(NamedTuple):
    """Where what is replaced stands: in a list of a node, or as the only value of a field."""

    node: ast.AST
    field: str
    start: int | None
    values: _Values
    length: int = 1

    def replace(self, body: list[ast.stmt]) -> None:
        """Put statements there, or the expression that is the only one."""
        value = getattr(self.node, self.field)
        old = value if self.start is None else value[self.start]
        is_statement = isinstance(old, ast.stmt)
        new = [_filled(node if is_statement else _value(body), self.values) for node in body]
        for node in new:
            ast.copy_location(node, old)
        if self.start is None:
            setattr(self.node, self.field, new[0])
        else:
            value[self.start : self.start + self.length] = new


def _places(patch: Patch, tree: ast.AST) -> Iterator[_Place]:
    old = _body(patch.old)
    is_expression = all(len(body) == 1 and isinstance(body[0], ast.Expr) for body in (old, _body(patch.new)))
    pattern: list[Any] = [_value(old)] if is_expression else list(old)
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            nodes = value if isinstance(value, list) else [value]
            for start in range(len(nodes) - len(pattern) + 1):
                values: _Values = {}
                if _matches(pattern, nodes[start : start + len(pattern)], values):
                    yield _Place(node, field, start if isinstance(value, list) else None, values, len(pattern))


def _body(code: str) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(code)).body


def _value(body: list[ast.stmt]) -> ast.expr:
    assert isinstance(body[0], ast.Expr)
    return body[0].value


def _is_any_body(pattern: list[Any]) -> bool:
    return len(pattern) == 1 and isinstance(pattern[0], ast.Expr) and ast.unparse(pattern[0]) == _ANY_BODY


def _is_any(pattern: object) -> bool:
    return isinstance(pattern, ast.Name) and len(pattern.id) == 1 and pattern.id.isupper()


def _matches(pattern: Any, node: Any, values: _Values) -> bool:
    if _is_any(pattern):
        if not isinstance(node, ast.expr):
            return False
        known = values.setdefault(pattern.id, node)
        return ast.unparse(known) == ast.unparse(node)
    if isinstance(pattern, ast.AST):
        return type(pattern) is type(node) and all(
            _matches(getattr(pattern, field), getattr(node, field), values) for field in pattern._fields
        )
    if isinstance(pattern, list):
        if _is_any_body(pattern):
            values[_ANY_BODY] = node
            return True
        return (
            isinstance(node, list)
            and len(pattern) == len(node)
            and all(_matches(old, part, values) for old, part in zip(pattern, node, strict=True))
        )
    return type(pattern) is type(node) and bool(pattern == node)


def _filled(pattern: ast.expr | ast.stmt, values: _Values) -> Any:
    """Return a copy of a pattern with the values of its letters."""
    return _Filler(values).visit(copy.deepcopy(pattern))


class _Filler(ast.NodeTransformer):
    def __init__(self, values: _Values) -> None:
        self._values = values

    def visit_Expr(self, node: ast.Expr) -> Any:
        is_body = ast.unparse(node) == _ANY_BODY and _ANY_BODY in self._values
        return copy.deepcopy(self._values[_ANY_BODY]) if is_body else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._values:
            return node
        value: ast.expr = copy.deepcopy(self._values[node.id])
        if hasattr(value, "ctx"):
            value.ctx = node.ctx
        return value
