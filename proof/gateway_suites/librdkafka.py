"""Tests of librdkafka that use a broker, from a checkout, each number of tests in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from proof.gateway_suites.suite import BUILT, Suite, checkout_of, missing_checkout

if TYPE_CHECKING:
    from proof.gateway_suites.served import Served

CHECKOUT = "LIBRDKAFKA_CHECKOUT"
TOOLS = ("make", "gcc", "g++")
BUILD_S = 1800
TEST_S = 150
TOGETHER = 3
LEFT_OUT = {"0098", "0101", "0103", "0129", "8000", "8001"} | {f"0{number}" for number in range(170, 200)}
"""Tests of transactions, SASL and share groups, and two that only wait or measure."""


@dataclass(frozen=True, kw_only=True)
class Librdkafka(Suite):
    """The test program of librdkafka, built without TLS and run in its quick mode."""

    def missing(self) -> str:
        """Say which program is not there, or which checkout is to be named."""
        absent = [tool for tool in TOOLS if shutil.which(tool) is None]
        return f"there is no {absent[0]} here" if absent else missing_checkout(CHECKOUT, "confluentinc/librdkafka")

    def run(self, served: Served, output: Path) -> dict[str, str]:
        """Run the tests of each number, several numbers at a time. A program that crashes after a test fails none."""
        tests = self._built() / "tests"
        names = re.findall(r"^ +_TEST\((\d{4}_\w+)", (tests / "test.c").read_text("utf-8"), re.MULTILINE)
        numbers = sorted({name[:4] for name in names} - LEFT_OUT)
        ended: dict[str, str] = {}
        with tempfile.TemporaryDirectory() as folder, output.open("wb") as file, ThreadPoolExecutor(TOGETHER) as pool:
            configuration = Path(folder) / "test.conf"
            configuration.write_text(f"bootstrap.servers={served.servers}\ntest.topic.random=true\n", "utf-8")
            results = pool.map(lambda number: _run(tests, Path(folder), number), numbers)
            for number, (text, ended[number]) in zip(numbers, results, strict=True):
                file.write(b"\n== %s\n" % number.encode() + text)
        return ended

    @staticmethod
    def _built() -> Path:
        """Return a copy of the checkout in which the program is built."""
        target = BUILT / "librdkafka"
        if not target.exists():
            part = target.with_name(f"{target.name}.part")
            if not part.exists():
                shutil.copytree(checkout_of(CHECKOUT), part, ignore=shutil.ignore_patterns(".git"))
            configure = ["./configure", "--disable-ssl", "--disable-gssapi", "--disable-curl"]
            subprocess.run(configure, cwd=part, check=True, capture_output=True, timeout=BUILD_S)
            for folder, goal in ((part, "libs"), (part / "tests", "build")):
                command = ["nice", "make", f"-j{os.cpu_count()}", goal]
                subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=BUILD_S)
            part.rename(target)
        return target


def _run(tests: Path, folder: Path, number: str) -> tuple[bytes, str]:
    """Run the tests of a number; return what they print, and what became of them."""
    report, output = folder / f"{number}.json", folder / f"{number}.log"
    told = {
        "LD_LIBRARY_PATH": f"{tests.parent / 'src'}:{tests.parent / 'src-cpp'}",
        "RDKAFKA_TEST_CONF": str(folder / "test.conf"),
        "TESTS": number,
        "TEST_LEVEL": "1",
        "TEST_REPORT": str(report),
    }
    command = ["./test-runner", "-p1", "-Q", "-L", "-V", "2.8.1"]
    with output.open("wb") as file, suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command, cwd=tests, env={**os.environ, **told}, stdout=file, stderr=file, timeout=TEST_S, check=False
        )
    states = {"FAILED"}
    with suppress(OSError, ValueError):
        tests_of = json.loads(report.read_text("utf-8"))["tests"]
        states = {test["state"] for name, test in tests_of.items() if name.startswith(number)} - {"SKIPPED"}
    return output.read_bytes(), "skip" if not states else "pass" if states == {"PASSED"} else "fail"
