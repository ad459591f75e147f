"""Tests of KafkaJS that use a server, from a checkout, with Jest."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from proof.gateway_suites.suite import BUILT, FETCH_S, Suite, checkout_of, missing_checkout, run_tests

if TYPE_CHECKING:
    from proof.gateway_suites.served import Served

CHECKOUT = "KAFKAJS_CHECKOUT"
TESTS = "src/(admin|broker|cluster|consumer|producer)/"
PLAIN_PORTS = "9092|9095|9098"
TLS_PORTS = "909[3469]|9097|9100"
"""The ports over TLS that the tests use, with SASL and without."""
WITH_PORTS = (
    "testHelpers/index.js",
    "src/admin/__tests__/createAcls.spec.js",
    "src/broker/__tests__/connect.spec.js",
    "src/broker/saslAuthenticator/scram.spec.js",
)
SCRIPT = "scripts/addPartitions.sh"


@dataclass(frozen=True, kw_only=True)
class KafkaJS(Suite):
    """The tests of the five folders that use a server; each file of tests gets a process of its own."""

    def missing(self) -> str:
        """Say which program is not there, or which checkout is to be named."""
        return missing_checkout(CHECKOUT, "tulios/kafkajs") if shutil.which("npm") else "there is no npm here"

    def run(self, served: Served, output: Path) -> dict[str, str]:
        """Run the tests with this gateway's ports."""
        folder = self._sources(served)
        told = {"KAFKA_VERSION": "2.4", "NODE_ENV": "test", "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1", "TEST_RETRIES": "1"}
        with tempfile.TemporaryDirectory() as reports:
            report = Path(reports) / "report.json"
            options = ("--ci", "--no-watchman", "--forceExit", "--json", f"--outputFile={report}")
            run_tests(output, folder, told, "npx", "jest", *options, f"--testPathPattern={TESTS}")
            files = json.loads(report.read_text("utf-8"))["testResults"]
        ended: dict[str, str] = {}
        for file in files:
            path = re.sub(r"__tests__/|\.spec\.js$", "", Path(file["name"]).relative_to(folder / "src").as_posix())
            ended |= {path: "fail"} if file["status"] == "failed" and not file["assertionResults"] else {}
            for test in file["assertionResults"]:
                name = " > ".join([path, *test["ancestorTitles"][1:], test["title"]])
                if ended.get(name) != "fail":  # some tests of a file have one name
                    ended[name] = {"passed": "pass", "failed": "fail"}.get(test["status"], "skip")
        return ended

    @staticmethod
    def _sources(served: Served) -> Path:
        """Return a copy of the checkout with the packages that it wants, and with the gateway's ports.

        Its script that adds partitions with Kafka's own tool, in Docker, does so with ours.
        """
        target, checkout = BUILT / "kafkajs", checkout_of(CHECKOUT)
        if not target.exists():
            part = target.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(checkout, part, ignore=shutil.ignore_patterns(".git", "node_modules"))
            install = ["npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run(install, cwd=part, check=True, capture_output=True, timeout=FETCH_S)
            part.rename(target)
        for name in WITH_PORTS:
            text = re.sub(rf"\b({PLAIN_PORTS})\b", str(served.port), (checkout / name).read_text("utf-8"))
            (target / name).write_text(re.sub(rf"\b({TLS_PORTS})\b", str(served.tls_port), text), "utf-8")
        shutil.copy(served.certificates / "ca.crt", target / "testHelpers" / "certs" / "cert-signed")
        grow = f'{sys.executable} -m kafka2011 topics grow "$TOPIC" --partitions "$PARTITIONS"'
        (target / SCRIPT).write_text(f"#!/bin/sh\nexec {grow} --zookeeper {served.zk_connect}\n", "utf-8")
        return target
