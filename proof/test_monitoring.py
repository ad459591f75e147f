"""Debian's Prometheus takes our targets and rules, answers the dashboard's queries, and notices a broker that dies."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from integration.debian.fetching import fetch
from integration.scraping import shown_port
from kafka2011 import ConsumerConnector, LocalCluster, Producer
from tests.support.waiting import eventually
from tests.test_monitoring import MONITORING, ROOT, queries
from zk.child import ChildProcess
from zk.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

FETCHED = ROOT / "build" / "prometheus"
WAIT_S = 60

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def programs() -> Path:
    """Fetch Debian's package, unless that was done."""
    if not (FETCHED / "usr" / "bin" / "promtool").exists():
        fetch("bookworm", "download", "prometheus", FETCHED)
    return FETCHED / "usr" / "bin"


@pytest.mark.parametrize("what", [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_promtool_takes_them(programs: Path, what: tuple[str, str]) -> None:
    """Rules and targets are such as Prometheus reads."""
    kind, name = what
    command = [str(programs / "promtool"), "check", kind, str(MONITORING / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def asked(port: int, path: str, **parameters: str) -> Any:
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=20) as answer:
        found = json.load(answer)
    assert found["status"] == "success"
    return found["data"]


def values(port: int, query: str) -> dict[str, float]:
    """Return the numbers that a query has by now, by the job that they are of."""
    found = asked(port, "query", query=query)["result"]
    return {each["metric"].get("job", ""): float(each["value"][1]) for each in found}


def configuration(directory: Path, brokers: int, monitor: int) -> Path:
    """Write the shipped configuration with the addresses of here, and looks that come once a second."""
    text = (MONITORING / "prometheus.yml").read_text().replace("15s", "1s")
    text = re.sub(r'"broker-1:.*"', f'"127.0.0.1:{brokers}"', text)
    text = text.replace("monitor:9670", f"127.0.0.1:{monitor}").replace("[alerts.yml]", f"[{MONITORING}/alerts.yml]")
    path = directory / "prometheus.yml"
    path.write_text(text)
    return path


def test_a_live_cluster_is_watched(programs: Path, tmp_path: Path) -> None:
    """Brokers and groups are up and in the numbers; every query of the dashboard is answered; a kill is an alert."""
    properties = {"metrics.port": 0, "log.flush.interval": 1}
    command = [sys.executable, "-m", "kafka2011", "monitor", "--metrics-port", "0", "--interval", "1"]
    with LocalCluster(1, properties=properties) as cluster:
        broker = cluster.brokers[0]
        settings = {"zk.connect": cluster.zk_connect, "groupid": "g", "autooffset.reset": "smallest"}
        with Producer({"zk.connect": cluster.zk_connect, "confirm": True}) as producer:
            producer.send("views", [b"one", b"two"]).result()
        with ConsumerConnector(settings) as consumer:
            [stream] = consumer.create_message_streams({"views": 1})["views"]
            assert [next(stream).payload for _ in range(2)] == [b"one", b"two"]
            consumer.commit_offsets()
            with ChildProcess([*command, "--zookeeper", cluster.zk_connect], tmp_path / "monitor") as monitor:
                eventually(lambda: "/metrics" in monitor.log_path.read_text(), WAIT_S)
                brokers_at = shown_port(broker.output().decode())
                port = free_port()
                prometheus = [
                    str(programs / "prometheus"),
                    f"--config.file={configuration(tmp_path, brokers_at, shown_port(monitor.log_path.read_text()))}",
                    f"--storage.tsdb.path={tmp_path / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ]
                with ChildProcess(prometheus, tmp_path / "prometheus"):
                    watch(port, tmp_path / "prometheus")
                    broker.kill()
                    eventually(lambda: values(port, "up").get("brokers") == 0, WAIT_S)
                    eventually(lambda: "KafkaProcessDown" in alerts(port), 2 * WAIT_S)


def alerts(port: int) -> set[str]:
    """Return those that fire."""
    return {each["labels"]["alertname"] for each in asked(port, "alerts")["alerts"] if each["state"] == "firing"}


def watch(port: int, log: Path) -> None:
    """Wait until all that runs is seen, and ask what the dashboard asks."""

    def is_seen() -> bool:
        try:
            return values(port, "up") == {"brokers": 1, "monitors": 1}
        except OSError:
            return False  # it has not begun to listen

    eventually(is_seen, WAIT_S, what=f"both targets to be up; {log.read_text()[-2000:]}")
    eventually(lambda: values(port, "kafka2011_monitor_group_lag_bytes").get("monitors") == 0, WAIT_S)
    assert values(port, "kafka2011_broker_messages_total") == {"brokers": 2}
    assert alerts(port) == set()
    for query in queries():
        asked(port, "query", query=query.replace("$__rate_interval", "1m"))
    assert values(port, "histogram_quantile(0.99, kafka2011_broker_flush_seconds_bucket)")["brokers"] > 0
