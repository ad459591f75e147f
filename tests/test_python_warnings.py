"""Python's warnings are the application's: importing this package leaves the filters as they are."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib, pkgutil, warnings
import numpy  # adds filters of its own
import kafka2011, pyspark_kafka2011, zk

before = list(warnings.filters)
names = [
    module.name
    for package in (kafka2011, pyspark_kafka2011, zk)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not module.name.endswith("__main__") and ".skeletons" not in module.name
]
for name in names:
    importlib.import_module(name)
    assert list(warnings.filters) == before, name
print(len(names))
"""


def test_importing_any_module_changes_no_filter_and_warns_of_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 400
