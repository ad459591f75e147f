"""Checks within a minute what has changed since the main branch: lint, types, the nearest unit tests (`make quick`).

A test file is near when it imports a changed module, and farther when a module that it imports does. The nearest ones
run first, and once their time is over the others are left out.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from scripts.definitions import PACKAGES, ROOT, module_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LAST_TEST_S = 45.0
"""When the last test may begin; the other checks run meanwhile."""
MOST_FILES = 80
MAIN_BRANCHES = ("origin/main", "main")
IMPORTERS = (*PACKAGES, "tests", "integration", "paper_benchmarks", "scripts")
CHECKS = (
    ("ruff", "check", "--quiet"),
    ("ruff", "format", "--check", "--quiet"),
    ("scripts.ratchet",),
    ("mypy", "--no-error-summary"),
)


def main() -> int:
    """Run the checks and the nearest tests; return 1 when any of them fails."""
    started_s = time.monotonic()
    checks = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", f"import scripts.quick; raise SystemExit(scripts.quick.check({CHECKS}))"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    changed = changed_paths()
    files = nearest_tests(changed, {module: path.read_text() for module, path in module_paths(IMPORTERS).items()})
    sys.stdout.write(f"{len(changed)} files have changed, and {len(files)} test files reach them\n")
    budget = _Budget(started_s + LAST_TEST_S)
    failed = bool(files) and not _passes(files[:MOST_FILES], budget)
    output, _ = checks.communicate()
    sys.stdout.write(f"== lint, limits, types\n{output}")
    if budget.left_out or len(files) > MOST_FILES:
        files_left = max(0, len(files) - MOST_FILES)
        sys.stdout.write(f"left out: {budget.left_out} tests, and {files_left} test files more; `make unit` runs all\n")
    verdict = "FAILED" if failed or checks.returncode else "good"
    sys.stdout.write(f"{verdict}, after {time.monotonic() - started_s:.0f} s\n")
    return int(failed or checks.returncode != 0)


def check(commands: Iterable[tuple[str, ...]]) -> int:
    """Run Python's modules with arguments, and return how many of them failed."""
    return sum(subprocess.run([sys.executable, "-m", *command], check=False).returncode != 0 for command in commands)  # noqa: S603


def changed_paths() -> list[str]:
    """Return the files that differ from the last commit in common with the main branch, new ones included."""
    branches = [branch for branch in MAIN_BRANCHES if _git("rev-parse", "--verify", "--quiet", branch)]
    base = _git("merge-base", "HEAD", branches[0])[0] if branches else "HEAD"
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=ROOT)  # noqa: S603, S607
    return done.stdout.splitlines()


def nearest_tests(changed: Iterable[str], sources: Mapping[str, str]) -> list[str]:
    """Return the test files in tests/ that reach changed files by imports, the nearest first.

    A file that is no module changes all modules that name it, and one of C code those of its folder too.
    """
    importers = _importers(sources)
    near = {module for path in changed for module in _modules_of(path, sources)}
    paths, seen = [], set(near)
    while near:
        paths += sorted(path for module in near if (path := _test_file(module, sources)))
        near = {importer for module in near for importer in importers[module]} - seen
        seen |= near
    return paths


def _modules_of(path: str, sources: Mapping[str, str]) -> Iterator[str]:
    folder, _, name = path.rpartition("/")
    stem, _, suffix = name.rpartition(".")
    if suffix == "py":
        yield folder.replace("/", ".") if stem == "__init__" else f"{folder}/{stem}".replace("/", ".")
        return
    package = folder.replace("/", ".")
    for module, text in sources.items():
        if name in text or (suffix in {"c", "h"} and module.rpartition(".")[0] == package):
            yield module


def _test_file(module: str, sources: Mapping[str, str]) -> str | None:
    is_test = module.startswith("tests.") and module.rpartition(".")[2].startswith("test_") and module in sources
    return f"{module.replace('.', '/')}.py" if is_test else None


def _importers(sources: Mapping[str, str]) -> defaultdict[str, set[str]]:
    importers = defaultdict(set)
    for module, text in sources.items():
        for imported in _imports(ast.parse(text), sources):
            importers[imported].add(module)
        folder, _, name = module.rpartition(".")
        if name == "conftest":
            importers[module].update(other for other in sources if other.startswith(f"{folder}."))
    return importers


def _imports(tree: ast.Module, sources: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules that a module imports, anywhere in it, but not for type checking alone."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # which grows
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        nodes += ast.iter_child_nodes(node)
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            yield from (part for part in (name, name.rpartition(".")[0]) if part in sources)


class _Budget:
    """Leaves out the tests that would begin after a time."""

    def __init__(self, ends_s: float) -> None:
        self.left_out = 0
        self._ends_s = ends_s

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Leave out a test for which there is no time."""
        del item
        if time.monotonic() < self._ends_s:
            return None
        self.left_out += 1
        return True


def _passes(files: list[str], budget: _Budget) -> bool:
    arguments = ["-q", *files]
    return pytest.main(arguments, plugins=[budget]) in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}


if __name__ == "__main__":
    sys.exit(main())
