"""The tests of clients in Go against a gateway: those that docs/reference/gateway-tests.md lists fail, and no other.

Sources come from Go's module proxy into build/suites. A suite's outcome is kept there, and is not measured again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka2011.local_cluster import LocalCluster
from zk.ports import free_port

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "gateway-tests.md"
BUILT = ROOT / "build" / "suites"
FETCH_S = 600
SUITE_S = 900
BY_DEFAULT = 9092

pytestmark = [
    pytest.mark.timeout(4 * SUITE_S),
    pytest.mark.skipif(shutil.which("go") is None, reason="there is no go here"),
]


class Suite(NamedTuple):
    """A module, the package with the tests, and the environment that they want; `{servers}` is the gateway."""

    module: str
    version: str
    package: str
    environment: dict[str, str]
    port: int = 0
    """The port that its tests expect; 0 if they are told."""
    left_out: str = "^$"
    """Names of tests that are not run, as a regular expression."""


SUITES = {
    "franz-go": Suite(
        "github.com/twmb/franz-go",
        "v1.22.3",
        "./pkg/kgo",
        {"KGO_SEEDS": "{servers}", "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"},
        left_out="^TestTxnEtl$",
    ),
    "kafka-go": Suite(
        "github.com/segmentio/kafka-go",
        "v0.4.51",
        ".",
        {"KAFKA_VERSION": "2.7.0", "KAFKA_SKIP_NETTEST": "1"},
        BY_DEFAULT,
        "^TestReaderConsumerGroup$/^(verify_offset_committed.*|consumer_group_commits_on_close)$",
    ),
}


def sources(suite: Suite) -> Path:
    """Return a copy of a module's sources, fetched if they are not there."""
    target = BUILT / f"{suite.module.rpartition('/')[2]}-{suite.version}"
    if target.exists():
        return target
    found = subprocess.run(
        ["go", "mod", "download", "-json", f"{suite.module}@{suite.version}"],
        check=True,
        capture_output=True,
        timeout=FETCH_S,
    )
    part = target.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(json.loads(found.stdout)["Dir"], part)
    for path in part.rglob("*"):
        path.chmod(path.stat().st_mode | 0o200)
    part.rename(target)
    return target


def outcomes(suite: Suite, servers: str, output: Path) -> dict[str, str]:
    """Run the tests of a suite, and return what became of each: pass, fail or skip."""
    told = {name: text.format(servers=servers) for name, text in suite.environment.items()}
    with output.open("wb") as file:
        subprocess.run(
            ["go", "test", "-json", "-count=1", f"-timeout={SUITE_S}s", f"-skip={suite.left_out}", suite.package],
            cwd=sources(suite),
            env={**os.environ, **told, "GOFLAGS": "-mod=mod"},
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=SUITE_S + FETCH_S,
            check=False,
        )
    ended: dict[str, str] = {}
    for line in output.read_text("utf-8", "replace").splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if "Test" in event:
            if event["Action"] == "run":
                ended[event["Test"]] = "fail"  # unless it ends otherwise
            if event["Action"] in {"pass", "fail", "skip"}:
                ended[event["Test"]] = event["Action"]
    return ended


def innermost_failures(ended: dict[str, str]) -> set[str]:
    """Return the failed tests that no failed test within them explains."""
    failed = {name for name, outcome in ended.items() if outcome == "fail"}
    return {name for name in failed if not any(other.startswith(f"{name}/") for other in failed)}


def listed(heading: str) -> set[str]:
    """Return the tests that the page lists in the first table below a heading."""
    _, _, rest = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    rows = rest.split("\n## ")[0].splitlines()
    return {name for row in rows if row.startswith("| `") for name in re.findall(r"`(Test[^`]+)`", row.split(" | ")[0])}


@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize(("brokers", "partitions"), [(1, 1), (3, 4)])
def test_only_what_the_page_lists_fails(name: str, brokers: int, partitions: int, tmp_path: Path) -> None:
    suite = SUITES[name]
    kept = BUILT / f"{name}-{brokers}-{partitions}.json"
    if not kept.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        port = suite.port or free_port()
        properties = {"num.partitions": partitions, "log.default.flush.scheduler.interval.ms": 100}
        with LocalCluster(brokers, directory=tmp_path, properties=properties, gateway=port) as cluster:
            if suite.port and not cluster.bootstrap_servers.endswith(f":{suite.port}"):
                pytest.skip(f"{name} wants port {suite.port}, which is in use")
            ended = outcomes(suite, cluster.bootstrap_servers, kept.with_suffix(".log"))
        kept.write_text(json.dumps(ended, indent=1), "utf-8")
    ended = json.loads(kept.read_text("utf-8"))
    assert sum(outcome == "pass" for outcome in ended.values()) > len(ended) / 2
    assert innermost_failures(ended) - listed(name) == set()
