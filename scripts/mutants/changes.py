"""Which small changes are made to a module: each one replaces a node of its syntax tree.

An operator becomes its neighbour, an integer (or a size such as 32 * 1024) one more, a flag its opposite, a condition
its negation; a call, an assignment to an attribute or an item, a raise, a break or a continue is left out. No change is
made to annotations, decorators, assertions, texts and log lines.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEIGHBOURS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_UNORDERED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)  # whose neighbour is the negation
_LEFT_OUT = (ast.Raise, ast.Break, ast.Continue, ast.Delete)

_Step: TypeAlias = tuple[str, int | None]
"""From a node to one inside: the field, and the place in its list."""


@dataclass(frozen=True)
class Change:
    """One change: the node at the end of a path from the module is replaced."""

    place: str
    """Where it is: the name of the module, with those of the classes and functions around the node."""
    old: str
    """What is changed, as `ast.unparse` writes it: the expression around the node, or the statement."""
    new: str
    number: int
    """The how many-th change of `old` to `new` in its place it is, from 1."""
    line: int
    """The line where the statement around the node begins, from 1."""
    statement: range
    """The lines of that statement, without the statements inside."""
    in_function: bool
    """Whether it takes effect when a function is called; otherwise it does when the module is imported."""
    path: tuple[_Step, ...]
    node: ast.AST

    def apply(self, source: bytes) -> ast.Module:
        """Return the tree of the changed source, whose lines have the same numbers."""
        tree = ast.parse(source)
        _replaced(tree, self.path, copy.deepcopy(self.node))
        return ast.fix_missing_locations(tree)


def changes_of(source: bytes, module: str) -> list[Change]:
    """Return all changes of a module, in the order of its text."""
    tree = ast.parse(source)
    finder = _Finder(module, tree)
    finder.visit(tree)
    return finder.changes


class _Finder(ast.NodeVisitor):
    """Walks a tree, and knows the path to where it is."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.changes: list[Change] = []
        self._tree = tree
        self._names = [module]
        self._path: tuple[_Step, ...] = ()
        self._functions = 0
        self._numbers: Counter[tuple[str, str, str]] = Counter()

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, _LEFT_OUT):
            self._put(ast.Pass())
        for field in node._fields:
            self._visit_field(node, field)

    def _visit_field(self, node: ast.AST, field: str) -> None:
        value = getattr(node, field)
        outer = self._path
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST):
                self._path = (*outer, (field, index if isinstance(value, list) else None))
                self.visit(child)
        self._path = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_field(node, "args")
        self._names.append(node.name)
        self._functions += 1
        self._visit_field(node, "body")
        self._functions -= 1
        self._names.pop()

    def visit_arguments(self, node: ast.arguments) -> None:
        self._visit_field(node, "defaults")
        self._visit_field(node, "kw_defaults")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        self._visit_field(node, "body")
        self._names.pop()

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test, ("test", None))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test, ("test", None))
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for index, test in enumerate(node.ifs):
            self._negate(test, ("ifs", index))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            if _is_log_line(node.value):
                return
            self._put(ast.Pass())
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._put(ast.Pass())
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_field(node, "value")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Attribute | ast.Subscript):
            self._put(ast.Pass())
        self._exchange(node.op, ("op", None))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if _is_number(node):
            self._put(ast.BinOp(node, ast.Add(), ast.Constant(1)))
            return
        if not any(_is_text(side) for side in (node.left, node.right)):
            self._exchange(node.op, ("op", None))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for index in range(1, len(node.values)):
            self._put(_with_neighbour(node, index))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, operator in enumerate(node.ops):
            self._exchange(operator, ("ops", index))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._put(node.operand)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._put(ast.Constant(not node.value))
        elif isinstance(node.value, int):
            self._put(ast.Constant(node.value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def _negate(self, test: ast.expr, step: _Step) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], _UNORDERED):
            return
        self._put(ast.UnaryOp(ast.Not(), test), step)

    def _exchange(self, operator: ast.AST, step: _Step) -> None:
        if type(operator) in _NEIGHBOURS:
            self._put(_NEIGHBOURS[type(operator)](), step)

    def _put(self, node: ast.AST, *steps: _Step) -> None:
        """Note the change that puts a node at the end of the path and these steps."""
        path = (*self._path, *steps)
        nodes = [self._tree, *_nodes_on(self._tree, path)]
        statement = next(around for around in reversed(nodes) if isinstance(around, ast.stmt))
        depth = _depth_to_tell(nodes, node)
        new = _replaced(copy.deepcopy(nodes[depth]), path[depth:], copy.deepcopy(node))
        parameter = _parameter_of(nodes[depth - 1], *path[depth - 1])
        place, old, new_text = ".".join(self._names), parameter + _text(nodes[depth]), parameter + _text(new)
        self._numbers[place, old, new_text] += 1
        change = Change(
            place=place,
            old=old,
            new=new_text,
            number=self._numbers[place, old, new_text],
            line=statement.lineno,
            statement=_own_lines(statement),
            in_function=self._functions > 0,
            path=path,
            node=node,
        )
        self.changes.append(change)


def _with_neighbour(node: ast.BoolOp, index: int) -> ast.BoolOp:
    """Return `a and b or c` for `a and b and c`: the operator before the value at an index is the other one."""
    before, after = node.values[:index], node.values[index:]
    if isinstance(node.op, ast.And):
        return ast.BoolOp(ast.Or(), [_joined(before), _joined(after)])
    both = ast.BoolOp(ast.And(), [before[-1], after[0]])
    return both if len(node.values) == 2 else ast.BoolOp(ast.Or(), [*before[:-1], both, *after[1:]])


def _joined(values: list[ast.expr]) -> ast.expr:
    return values[0] if len(values) == 1 else ast.BoolOp(ast.And(), values)


def _nodes_on(tree: ast.AST, path: tuple[_Step, ...]) -> Iterator[ast.AST]:
    for field, index in path:
        value = getattr(tree, field)
        tree = value if index is None else value[index]
        yield tree


def _replaced(tree: ast.AST, path: tuple[_Step, ...], node: ast.AST) -> ast.AST:
    """Put a node at the end of a path, and return the tree, or the node if the path is empty."""
    if not path:
        return node
    *_, parent = [tree, *_nodes_on(tree, path[:-1])]
    field, index = path[-1]
    if index is None:
        ast.copy_location(node, getattr(parent, field))
        setattr(parent, field, node)
    else:
        ast.copy_location(node, getattr(parent, field)[index])
        getattr(parent, field)[index] = node
    return tree


def _depth_to_tell(nodes: list[ast.AST], new: ast.AST) -> int:
    """Return which of the nodes on the way to the changed one is told: a number says too little by itself."""
    last = len(nodes) - 1
    if isinstance(nodes[last], ast.operator | ast.cmpop | ast.boolop):
        return last - 1
    if not isinstance(nodes[last], ast.Constant | ast.BinOp) or isinstance(new, ast.UnaryOp):
        return last
    for depth in range(last - 1, -1, -1):
        if isinstance(nodes[depth], ast.arguments):
            return depth + 1
        if isinstance(nodes[depth], ast.expr | ast.stmt) and not isinstance(nodes[depth], ast.Slice | ast.UnaryOp):
            return depth
    raise AssertionError("every expression is in a statement")


def _parameter_of(arguments: ast.AST, field: str, index: int | None) -> str:
    """Return how the default at an index of a function's arguments begins in its signature; of other nodes nothing."""
    if not isinstance(arguments, ast.arguments) or index is None:
        return ""
    if field == "kw_defaults":
        return f"{arguments.kwonlyargs[index].arg}="
    positional = [*arguments.posonlyargs, *arguments.args]
    return f"{positional[index - len(arguments.defaults)].arg}="


def _text(node: ast.AST) -> str:
    """Return the source of a node, of a compound statement its head."""
    if isinstance(node, ast.stmt) and hasattr(node, "body"):
        node = copy.copy(node)
        for field in ("body", "orelse", "finalbody", "handlers"):
            if hasattr(node, field):
                setattr(node, field, [])
    return ast.unparse(node)


def _own_lines(statement: ast.stmt) -> range:
    assert statement.end_lineno is not None
    inside: Iterator[int] = (
        child.lineno for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt | ast.ExceptHandler)
    )
    first_inside = min(inside, default=statement.end_lineno + 1)
    return range(statement.lineno, max(statement.lineno + 1, first_inside))


def _is_number(node: ast.expr) -> bool:
    """Return whether it is a number, or one that is written as a calculation of others, as 32 * 1024 is."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_log_line(call: ast.Call) -> bool:
    called = call.func
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "logger"
