"""The part of the build that pyproject.toml cannot say: C code, which is compiled where that is possible.

Without a compiler or Python's headers the package is built all the same, from Python alone.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

EXTENSIONS = [
    Extension(
        f"kafka2011.{name}",
        [f"kafka2011/{name.replace('.', '/')}.c"],
        depends=[
            "kafka2011/broker/connections/_parts.h",
            "kafka2011/message/_arguments.h",
            "kafka2011/message/_lengths.h",
            "kafka2011/message/_messages.h",
            "kafka2011/message/_stored.h",
        ],
        extra_compile_args=["-std=gnu11", "-O3", "-fvisibility=hidden"],
        py_limited_api=True,
        optional=True,  # setuptools warns when it cannot be built
    )
    for name in (
        "broker.requests._receive",
        "broker.connections._send",
        "broker.connections._send_threads",
        "events._encode",
        "gateway.records._records",
        "message._runs",
        "producer._append",
        "warehouse.rows._columns",
        "wire._exchange",
    )
]


class BuildExt(build_ext):
    """Leaves nothing behind of what could not be built, an older build included."""

    def run(self) -> None:
        """Build, and let later steps go by what was built."""
        wanted = list(self.extensions)
        self.failed: list[Extension] = []
        super().run()
        self.extensions = [extension for extension in wanted if extension not in self.failed]
        self.distribution.ext_modules = self.extensions
        for extension in self.failed:
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)

    def build_extension(self, ext: Extension) -> None:
        """Build one."""
        try:
            super().build_extension(ext)
        except Exception:
            self.failed.append(ext)
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            raise


class BdistWheel(bdist_wheel):
    """Names the wheel after what is in it: cp311-abi3 with the C code, py3-none-any without."""

    def run(self) -> None:
        """Build first, since the name depends on it."""
        self.run_command("build_ext")
        if not self.distribution.ext_modules:
            self.root_is_pure = True
            self.py_limited_api = False
        super().run()


HAS_STABLE_ABI = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")

if HAS_STABLE_ABI:
    setup(
        ext_modules=EXTENSIONS,
        cmdclass={"build_ext": BuildExt, "bdist_wheel": BdistWheel},
        options={"bdist_wheel": {"py_limited_api": "cp311"}},
    )
else:
    setup()
