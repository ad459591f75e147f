"""Plants defects in the code of this process."""

from __future__ import annotations
import __future__

import ast
import inspect
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.planted.patches import Defect, Patch


@contextmanager
def planted(defect: Defect) -> Iterator[None]:
    """Have a defect in this block."""
    with ExitStack() as stack:
        for patch in defect.patches:
            stack.enter_context(patched(patch))
        yield


@contextmanager
def patched(patch: Patch) -> Iterator[None]:
    """Have a patch applied in this block. Raises PatchError.

    The code of the function itself is exchanged, so whoever holds it already runs the changed one too. It must not
    have a closure (as `super()` without arguments makes one).
    """
    module, qualname, node = patch.changed()
    assert isinstance(node, ast.FunctionDef), f"{patch.function} is no plain function"
    function = _function(module, qualname)
    assert function.__closure__ is None, f"{patch.function} has a closure"
    node.decorator_list = []
    flags = __future__.annotations.compiler_flag
    names: dict[str, Any] = {}
    code = compile(ast.Module([node], []), function.__code__.co_filename, "exec", flags, dont_inherit=True)
    exec(code, function.__globals__, names)
    before = function.__code__
    function.__code__ = names[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = before


def _function(module: str, qualname: str) -> FunctionType:
    *classes, name = qualname.split(".")
    owner: Any = import_module(module)
    for class_name in classes:
        owner = getattr(owner, class_name)
    function = inspect.getattr_static(owner, name)
    if isinstance(function, property):
        function = function.fget
    if isinstance(function, staticmethod | classmethod):
        function = function.__func__
    function = inspect.unwrap(function)
    assert isinstance(function, FunctionType), f"{qualname} is no function"
    return function
