"""Checks limits that only get stricter: `[tool.ratchet]` in pyproject.toml has them, and today's exceptions.

An exception lists how much there is now. What grows beyond that is refused, and what shrinks has its number lowered, so
that it does not grow again.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from scripts.definitions import ROOT, Definition, definitions_of, module_paths
from scripts.mutants import parts
from tests.planted import patches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_SETTINGS_PACKAGE = "kafka2011.config"
_TEST_FOLDERS = ("tests", "integration", "proof")
_OF_NAMED_TUPLES = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
_OF_LIBRARIES = {  # of Python, click and PySpark
    *("_current_frames", "_exit", "_getframe", "_parser", "_ssl", "_test_decode_cert"),
    *("_protected_args", "_jvm"),
}


class Sources(NamedTuple):
    """The modules of the packages, parsed, and the classes and functions in them."""

    trees: Mapping[str, ast.Module]
    definitions: list[Definition]

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Sources:
        """Parse the texts of modules."""
        trees = {module: ast.parse(text) for module, text in texts.items()}
        return cls(trees, [item for module, tree in trees.items() for item in definitions_of(module, tree)])

    @property
    def classes(self) -> list[Definition]:
        """The classes."""
        return [item for item in self.definitions if isinstance(item.node, ast.ClassDef)]

    @property
    def functions(self) -> list[Definition]:
        """The functions and methods."""
        return [item for item in self.definitions if not isinstance(item.node, ast.ClassDef)]


def problems(sources: Sources, limits: Mapping[str, Any]) -> Iterator[str]:
    """Say what is over its limit, and which exceptions are not what they were."""
    lines_of_classes = {item.full_name: item.lines for item in sources.classes}
    lines_of_functions = {item.full_name: item.lines for item in sources.functions}
    parameters = {item.full_name: count_parameters(item) for item in sources.functions if not is_command(item)}
    yield from _over("lines", lines_of_classes, limits["class-lines"], limits["long-classes"])
    yield from _over("lines", lines_of_functions, limits["function-lines"], limits["long-functions"])
    yield from _over("parameters", parameters, limits["parameters"], limits["many-parameters"])
    yield from _over("public classes", count_public_classes(sources), 1, limits["shared-names"])
    yield from _over("attributes", count_attributes(sources, limits["attributes"]), 0, limits["attributes"], "at-most")
    if (count := len(limits["long-classes"])) > limits["most-long-classes"]:
        yield f"{count} long classes are listed, and at most {limits['most-long-classes']} may be"
    for setting in unread_settings(sources):
        yield f"{setting}: no code reads this setting"


def _over(
    unit: str, counts: Mapping[str, int], limit: int, exceptions: Mapping[str, Mapping[str, Any]], key: str = "now"
) -> Iterator[str]:
    """Compare counts with the limit, or with what an exception lists for the name.

    An exception that lists `now` has to be exact; one that lists `at-most` is a limit.
    """
    listed = {}
    for short_name, exception in exceptions.items():
        names = [name for name in counts if f".{name}".endswith(f".{short_name}")]
        if len(names) != 1:
            yield f"the exception {short_name} stands for {len(names)} names with {unit}: {', '.join(names)}"
        if not exception.get("why"):
            yield f"the exception {short_name} has no reason (why)"
        listed.update(dict.fromkeys(names, exception[key]))
    for name, count in counts.items():
        allowed = listed.get(name, limit)
        if count > allowed:
            yield f"{name} has {count} {unit}, and at most {allowed} are allowed"
        elif name in listed and count <= limit:
            yield f"{name} has {count} {unit}, which needs no exception: remove it"
        elif name in listed and key == "now" and count < allowed:
            yield f"{name} has {count} {unit}: lower its exception from {allowed} to {count}"


def count_parameters(function: Definition) -> int:
    """Return how many parameters a function has, `self` and `cls` left out."""
    assert not isinstance(function.node, ast.ClassDef)
    arguments = function.node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([argument for argument in named if argument.arg not in {"self", "cls"}])


def is_command(function: Definition) -> bool:
    """Return whether it is a command of click, which has a parameter for each option."""
    return any(ast.unparse(decorator).startswith("click.command") for decorator in function.node.decorator_list)


def count_public_classes(sources: Sources) -> Counter[str]:
    """Return how many modules define a public class of a name."""
    return Counter(item.qualname for item in sources.classes if "." not in item.qualname and item.qualname[0] != "_")


def count_attributes(sources: Sources, short_names: Iterable[str]) -> dict[str, int]:
    """Return how many attributes the constructors of some classes, and of their bases, give an instance."""
    return {
        item.full_name: len(_attributes(sources, item))
        for item in sources.classes
        if any(item.has_name(short_name) for short_name in short_names)
    }


def _attributes(sources: Sources, definition: Definition) -> set[str]:
    assert isinstance(definition.node, ast.ClassDef)
    names = {
        node.attr
        for method in definition.node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    bases = {ast.unparse(base) for base in definition.node.bases}
    return names.union(*(_attributes(sources, item) for item in sources.classes if item.qualname in bases))


def unread_settings(sources: Sources) -> list[str]:
    """Return the settings whose attribute no code reads."""
    declared = defaultdict(set)
    read = set()
    for module, tree in sources.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                read.add(node.attr)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "same_as":  # another's default
                read.add(str(ast.literal_eval(node.args[0])).replace(".", "_"))
            elif module.startswith(_SETTINGS_PACKAGE) and isinstance(node, ast.AnnAssign) and _is_setting(node):
                declared[ast.unparse(node.target)].add(module)
    return sorted(f"{module}.{name}" for name, modules in declared.items() if name not in read for module in modules)


def _is_setting(node: ast.AnnAssign) -> bool:
    return isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "setting"


def private_names_problems(texts: Mapping[str, str], limits: Mapping[str, Any]) -> Iterator[str]:
    """Say which test modules reach more private names of other modules than they may."""
    counts = {module: count_private_names(ast.parse(text)) for module, text in texts.items()}
    yield from _over("private names of other modules", counts, 0, limits["private-names"])


def count_private_names(tree: ast.Module) -> int:
    """Return how often a module imports or reaches a private name that it does not define itself."""
    nodes = list(ast.walk(tree))
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    defined |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined |= {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_of_self(node)
    }
    reached = [node.attr for node in nodes if isinstance(node, ast.Attribute) and not _is_of_self(node)]
    reached += [alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
    allowed = defined | _OF_NAMED_TUPLES | _OF_LIBRARIES
    return sum(name.startswith("_") and not name.startswith("__") and name not in allowed for name in reached)


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}


def _texts_of_tests() -> dict[str, str]:
    paths = [path for folder in _TEST_FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text() for path in paths}


def main() -> int:
    """Print all problems of the project; return 1 when there are any."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    sources = Sources.of({module: path.read_text() for module, path in module_paths().items()})
    lines = [
        *problems(sources, tools["ratchet"]),
        *private_names_problems(_texts_of_tests(), tools["ratchet"]),
        *parts.problems(tools["mutants"], sources.trees),
        *patches.problems(),
    ]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
