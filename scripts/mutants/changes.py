"""Which small changes are made to a module: each one is its source with a few characters exchanged.

An operator becomes its neighbour, an integer (or a size such as 32 * 1024) one more, a flag its opposite, a condition
its negation; a call, an assignment to an attribute or an item, a raise, a break or a continue is left out. No change is
made to annotations, decorators, assertions, texts and log lines.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
_UNORDERED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)  # whose neighbour is the negation
_LEAVES_OUT = (ast.Raise, ast.Break, ast.Continue, ast.Delete)


@dataclass(frozen=True)
class Change:
    """One change: what stands between two positions of a source is replaced."""

    start: int
    end: int
    text: bytes
    line: int
    """The line where it begins, from 1."""
    statement: range
    """The lines of the statement around it, without the statements inside."""
    in_function: bool
    """Whether it takes effect when a function is called; otherwise it does when the module is imported."""
    line_before: str
    old_line: str
    new_line: str

    def apply(self, source: bytes) -> bytes:
        """Return the changed source, which has as many lines."""
        newlines = source[self.start : self.end].count(b"\n") - self.text.count(b"\n")
        return source[: self.start] + self.text + b"\\\n" * newlines + source[self.end :]


def changes_of(source: bytes) -> list[Change]:
    """Return all changes of a module, in the order of its text."""
    found = _Changes(source)
    found.visit(ast.parse(source))
    return sorted(found.made, key=lambda change: (change.start, change.end, change.text))


class _Changes(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self.made: list[Change] = []
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._line_starts = [0]
        for line in self._lines:
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._statement = range(1, 2)
        self._functions = 0

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self._statement = _own_lines(node)
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        self._functions += 1
        for statement in node.body:
            self.visit(statement)
        self._functions -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            if _is_log_line(node.value):
                return
            self._leave_out(node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._leave_out(node)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Attribute | ast.Subscript):
            self._leave_out(node)
        self._exchange(node.op, node.target, node.value)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if _is_number(node):
            self._replace(self._end(node), self._end(node), b" + 1")
            return
        if not any(_is_text(side) for side in (node.left, node.right)):
            self._exchange(node.op, node.left, node.right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._exchange(node.op, left, right)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for operator, left, right in zip(node.ops, (node.left, *node.comparators), node.comparators, strict=False):
            self._exchange(operator, left, right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._start(node)
            found = re.match(rb"not\s*", self._source[start : self._start(node.operand)])
            assert found is not None, f"no not in line {node.lineno}"
            self._replace(start, start + found.end(), b"")  # and keep what may be a bracket
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(self._start(node), self._end(node), str(not node.value).encode())
        elif isinstance(node.value, int):
            self._replace(self._start(node), self._end(node), str(node.value + 1).encode())

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass  # before Python 3.12 nothing in it has a position of its own

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, _LEAVES_OUT):
            self._leave_out(node)
        super().generic_visit(node)

    def _leave_out(self, node: ast.stmt) -> None:
        self._replace(self._start(node), self._end(node), b"pass")

    def _negate(self, test: ast.expr) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], _UNORDERED):
            return
        start, end = self._start(test), self._end(test)
        self._replace(start, end, b"not (" + self._source[start:end] + b")")

    def _exchange(self, operator: ast.AST, left: ast.expr, right: ast.expr) -> None:
        if type(operator) not in _OPERATORS:
            return
        old, new = _OPERATORS[type(operator)]
        start = self._end(left)
        found = re.search(re.escape(old.encode()).replace(rb"\ ", rb"\s+"), self._source[start : self._start(right)])
        assert found is not None, f"no {old} in line {left.end_lineno}"
        self._replace(start + found.start(), start + found.end(), new.encode())

    def _replace(self, start: int, end: int, text: bytes) -> None:
        line = self._source.count(b"\n", 0, start) + 1
        line_start, line_end = self._line_starts[line - 1], self._line_starts[line]
        new_line = self._source[line_start:start] + text + self._source[end : max(end, line_end)]
        change = Change(
            start=start,
            end=end,
            text=text,
            line=line,
            statement=self._statement,
            in_function=self._functions > 0,
            line_before=_in_one_line(self._source[self._line_starts[max(line - 2, 0)] : line_start]),
            old_line=_in_one_line(self._source[line_start:line_end]),
            new_line=_in_one_line(new_line),
        )
        self.made.append(change)

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._line_starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._line_starts[node.end_lineno - 1] + node.end_col_offset


def _own_lines(statement: ast.stmt) -> range:
    assert statement.end_lineno is not None
    inside: Iterator[int] = (
        child.lineno for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt | ast.ExceptHandler)
    )
    first_inside = min(inside, default=statement.end_lineno + 1)
    return range(statement.lineno, max(statement.lineno + 1, first_inside))


def _in_one_line(text: bytes) -> str:
    return " ".join(text.decode().split())


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
