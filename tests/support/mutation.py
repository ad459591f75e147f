"""One change to shipped code for as long as a block runs: to see that a test or a model notices the defect it makes."""

from __future__ import annotations
import __future__

import ast
import inspect
import textwrap
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def mutated(function: Callable[..., Any], old: str, new: str) -> Iterator[None]:
    """Run a function or method with `new` in place of `old`, which must stand in its source exactly once.

    The code of the function itself is exchanged, so whoever holds it already runs the changed one too. It must not
    have a closure (as `super()` without arguments makes one). `old` and `new` have the source's indentation, less
    that of the function.
    """
    function = inspect.unwrap(function)
    assert isinstance(function, FunctionType), f"{function} is no function"
    assert function.__closure__ is None, f"{function.__qualname__} has a closure"
    source = textwrap.dedent(inspect.getsource(function))
    found = source.count(old)
    assert found == 1, f"{old!r} stands {found} times in {function.__qualname__}"
    tree = ast.parse(source.replace(old, new))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    flags = __future__.annotations.compiler_flag
    names: dict[str, Any] = {}
    exec(compile(tree, function.__code__.co_filename, "exec", flags, dont_inherit=True), function.__globals__, names)
    before = function.__code__
    function.__code__ = names[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = before
