"""Other clients' own tests against a gateway: those that docs/reference/gateway-tests.md lists fail, and no other.

Sources in Go come from its module proxy. For others, a variable names a checkout: AIOKAFKA_CHECKOUT, KAFKAJS_CHECKOUT,
LIBRDKAFKA_CHECKOUT. What is built of them is in build/suites. A suite's outcome is kept there, and not measured again.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proof.gateway_suites.aiokafka import Aiokafka
from proof.gateway_suites.go import GoSuite
from proof.gateway_suites.kafkajs import KafkaJS
from proof.gateway_suites.librdkafka import Librdkafka
from proof.gateway_suites.sarama import Sarama
from proof.gateway_suites.served import serve
from proof.gateway_suites.suite import BUILT, FETCH_S, SUITE_S
from zk.ports import free_port

if TYPE_CHECKING:
    from proof.gateway_suites.suite import Suite

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "gateway-tests.md"

pytestmark = pytest.mark.timeout(SUITE_S + 3 * FETCH_S)

SUITES: list[Suite] = [
    GoSuite(
        name="franz-go",
        module="github.com/twmb/franz-go",
        version="v1.22.3",
        package="./pkg/kgo",
        environment={"KGO_SEEDS": "{servers}", "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"},
        left_out="^TestTxnEtl$",
    ),
    GoSuite(
        name="kafka-go",
        port=9092,
        module="github.com/segmentio/kafka-go",
        version="v0.4.51",
        package=".",
        environment={"KAFKA_VERSION": "2.7.0", "KAFKA_SKIP_NETTEST": "1"},
        left_out="^TestReaderConsumerGroup$/^(verify_offset_committed.*|consumer_group_commits_on_close)$",
    ),
    Sarama(
        name="Sarama",
        settings={"auto.create.topics": "false"},
        module="github.com/IBM/sarama",
        version="v1.60.1",
        package=".",
        environment={"KAFKA_VERSION": "2.8.1"},
        left_out="^(TestFuncTxn.*|TestJava.*|.*BrokerFailure|TestConsumerFetchFollowerFailover|TestVersionMatrixLZ4"
        "|TestFuncAdminListConsumerGroupOffsets|TestFuncIdempotentBufferedSequence)$",
    ),
    Aiokafka(name="aiokafka", clusters=((2, 1), (1, 2))),
    KafkaJS(
        name="KafkaJS",
        settings={"advertised.host": "localhost", "group.protocols": "AssignerName,TestAssigner,UnbalancedAssigner"},
    ),
    Librdkafka(name="librdkafka", clusters=((1, 4), (3, 1))),
]


def covers(listed: str, test: str) -> bool:
    """Say whether a name on the page means a test: itself, or the file or part that it is in."""
    return test == listed or test.startswith((f"{listed}/", f"{listed} > "))


def innermost_failures(ended: dict[str, str]) -> set[str]:
    """Return the failed tests that no failed test within them explains."""
    failed = {name for name, outcome in ended.items() if outcome == "fail"}
    return {name for name in failed if not any(other != name and covers(name, other) for other in failed)}


def listed_tests(heading: str, cluster: tuple[int, int]) -> set[str]:
    """Return the tests that the page lists in the table below a heading, for all clusters or for this one."""
    _, _, rest = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    listed: set[str] = set()
    for row in rest.split("\n## ")[0].splitlines():
        tests, _, reason = row.strip("| ").partition(" | ")
        only = re.match(r"(\d+) × (\d+): ", reason)  # noqa: RUF001 - as on the page
        if row.startswith("| `") and (only is None or (int(only[1]), int(only[2])) == cluster):
            listed |= set(re.findall(r"`([^`]+)`", tests))
    return listed


def is_in_use(port: int) -> bool:
    """Say whether somebody listens on a port."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize(
    ("suite", "brokers", "partitions"),
    [
        pytest.param(suite, *cluster, id="-".join(map(str, (suite.name, *cluster))))
        for suite in SUITES
        for cluster in suite.clusters
    ],
)
def test_only_what_the_page_lists_fails(suite: Suite, brokers: int, partitions: int, tmp_path: Path) -> None:
    kept = BUILT / f"{suite.name}-{brokers}-{partitions}.json"
    if not kept.exists():
        if missing := suite.missing():
            pytest.skip(missing)
        if suite.port and is_in_use(suite.port):
            pytest.skip(f"{suite.name} wants port {suite.port}, which is in use")
        BUILT.mkdir(parents=True, exist_ok=True)
        with serve(tmp_path, brokers, partitions, suite.port or free_port(), suite.settings) as served:
            ended = suite.run(served, kept.with_suffix(".log"))
        shutil.copy(tmp_path / "gateway" / "gateway.log", kept.with_suffix(".gateway.log"))
        kept.write_text(json.dumps(ended, indent=1), "utf-8")
    ended = json.loads(kept.read_text("utf-8"))
    listed = listed_tests(suite.name, (brokers, partitions))
    assert sum(outcome == "pass" for outcome in ended.values()) > len(listed)
    assert {test for test in innermost_failures(ended) if not any(covers(name, test) for name in listed)} == set()
    assert {name for name in listed if not any(covers(name, test) for test in ended)} == set()
