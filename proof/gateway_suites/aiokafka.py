"""Tests of aiokafka that use a server, from a checkout, with the aiokafka of its version from the package index."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from proof.environments import environment
from proof.gateway_suites.suite import BUILT, Suite, checkout_of, missing_checkout, run_tests

if TYPE_CHECKING:
    from proof.gateway_suites.served import Served

CHECKOUT = "AIOKAFKA_CHECKOUT"
FIXTURES = Path(__file__).with_name("aiokafka_fixtures.py")
PACKAGES = ("pytest", "pytest-asyncio", "pytest-mock", "pytest-timeout", "cramjam")
LEFT_OUT = "--ignore=tests/test_sasl.py"
TEST_S = 180


@dataclass(frozen=True, kw_only=True)
class Aiokafka(Suite):
    """The tests whose fixtures start a server in Docker, without Docker: the fixtures are replaced."""

    def missing(self) -> str:
        """Say which checkout is to be named."""
        return missing_checkout(CHECKOUT, "aio-libs/aiokafka")

    def run(self, served: Served, output: Path) -> dict[str, str]:
        """Run copies of the tests, so that they do not import the checkout, which is not compiled."""
        told = {
            "SERVED_HOST": served.host,
            "SERVED_PORT": str(served.port),
            "SERVED_TLS_PORT": str(served.tls_port),
            "SERVED_CERTIFICATES": str(served.certificates),
            "KAFKA_VERSION": "2.8.1",
        }
        with tempfile.TemporaryDirectory() as folder:
            tests, report = Path(folder) / "tests", Path(folder) / "report.xml"
            shutil.copytree(checkout_of(CHECKOUT) / "tests", tests)
            shutil.copy(FIXTURES, tests / "conftest.py")
            options = ("-v", "-o", "asyncio_mode=auto", f"--timeout={TEST_S}", f"--junitxml={report}", LEFT_OUT)
            run_tests(output, Path(folder), told, self._python(), "-m", "pytest", *options, "tests")
            cases = list(ElementTree.parse(report).getroot().iter("testcase"))
        ended = {case.attrib["name"]: _outcome(case) for case in cases}
        return ended | {case.attrib["name"]: "fail" for case in cases if _outcome(case) == "fail"}

    @staticmethod
    def _python() -> str:
        """Return the Python of an environment with the checkout's version."""
        text = (checkout_of(CHECKOUT) / "aiokafka" / "__init__.py").read_text("utf-8")
        version = re.findall(r'^__version__ = "(.+)"', text, re.MULTILINE)[0]
        folder = BUILT / f"aiokafka-{version}"
        if not folder.exists():
            part = folder.with_name(f"{folder.name}.part")
            environment(part, f"aiokafka=={version}", *PACKAGES)
            part.rename(folder)
        return str(folder / "bin" / "python")


def _outcome(case: ElementTree.Element) -> str:
    parts = {part.tag for part in case}
    return "fail" if parts & {"failure", "error"} else "skip" if "skipped" in parts else "pass"
