"""Dashboard and rules of Prometheus use metrics that there are, and say what to do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kafka2011.broker.monitoring.metrics import BROKER_METRICS
from kafka2011.cli.monitor_metrics import MONITOR_METRICS
from kafka2011.metrics.clients import CONSUMER_METRICS, PRODUCER_METRICS
from kafka2011.metrics.loads import LOAD_METRICS
from kafka2011.metrics.metric import MetricKind
from kafka2011.metrics.tiers import COLLECT_METRICS, MIRROR_METRICS

ROOT = Path(__file__).parent.parent
MONITORING = ROOT / "examples" / "monitoring"
ALERTS = (MONITORING / "alerts.yml").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "grafana" / "dashboards" / "kafka2011.json").read_text())
EVERY = (
    *BROKER_METRICS,
    *CONSUMER_METRICS,
    *PRODUCER_METRICS,
    *MIRROR_METRICS,
    *COLLECT_METRICS,
    *LOAD_METRICS,
    *MONITOR_METRICS,
)
SERIES = {
    f"{metric.name}{end}"
    for metric in EVERY
    for end in (("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",))
}
"""What Prometheus has of them."""


def queries() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def test_every_metric_is_one_that_the_code_makes() -> None:
    """In the rules and on the dashboard; its labels, where some are named, are those that it has."""
    labels = {each.name: each.labels for each in EVERY}
    for text in (ALERTS, *queries()):
        assert set(re.findall(r"\bkafka2011_\w+", text)) <= SERIES, text
        assert "kafka2011_" in text or "up" in text
    known = {label for named in labels.values() for label in named} | {"instance", "job", "le"}
    for text in (ALERTS, *queries()):
        named = {each.strip() for found in re.findall(r"\b(?:by|on) \(([^)]*)\)", text) for each in found.split(",")}
        assert named <= known, text


def test_a_rate_is_of_what_only_grows() -> None:
    """A gauge's rate is nonsense, and a counter without one as well."""
    growing = {name for name in SERIES if name.endswith(("_total", "_bucket", "_sum", "_count"))}
    for text in (ALERTS, *queries()):
        rated = set(re.findall(r"(?:rate|increase)\((kafka2011_\w+)\[", text))
        assert rated <= growing, text
        assert set(re.findall(r"\bkafka2011_\w+", text)) & growing == rated, text


def test_each_alert_has_its_section() -> None:
    """Twelve of them, and where `runbook` leads there is a heading."""
    alerts = re.findall(r"^      - alert: (\w+)$", ALERTS, re.MULTILINE)
    runbooks = re.findall(r"^          runbook: docs/how-to/alerts\.md#(\w+)$", ALERTS, re.MULTILINE)
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    assert len(alerts) == 12
    assert alerts == re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert runbooks == [alert.lower() for alert in alerts]


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    """Each panel has a number of its own, a place on the grid that no other has, and queries of the data source."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            refs = [target["refId"] for target in panel["targets"]]
            assert refs == sorted(set(refs))
            assert refs
    source = (MONITORING / "grafana" / "provisioning" / "datasources" / "prometheus.yml").read_text()
    assert {panel["datasource"]["uid"] for panel in panels if "datasource" in panel} == set(
        re.findall(r"uid: (\w+)", source)
    )


def test_targets_are_services_at_the_ports_that_they_are_given() -> None:
    """What Prometheus asks in containers is what docker-compose.yml starts."""
    services = set(re.findall(r"^  ([\w-]+):$", COMPOSE.split("\nservices:\n")[1], re.MULTILINE))
    text = (MONITORING / "prometheus.yml").read_text()
    fixed = re.findall(r'"([\w-]+):(\d+)"', text)
    found = [
        (names.split(", "), port) for names, port in re.findall(r"names: \[([^\]]*)\], type: A, port: (\d+)", text)
    ]
    targets = {(name, port) for name, port in fixed} | {(name, port) for names, port in found for name in names}
    assert {name for name, _ in targets} <= services
    ports = {"KAFKA2011_METRICS_PORT": "9667", "--metrics-port=9668": "9668", "--metrics-port=9671": "9671"}
    assert all(option in COMPOSE for option in ports)
    assert {port for _, port in targets} == {*ports.values(), "9670"}
    reachable = COMPOSE.count("KAFKA2011_METRICS_BIND_ADDRESS: 0.0.0.0")
    assert COMPOSE.count('KAFKA2011_METRICS_PORT: "9667"') == reachable  # from other containers


@pytest.mark.parametrize("what", [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_promtool_takes_them(what: tuple[str, str]) -> None:
    """Where Prometheus is installed; elsewhere proof/test_monitoring.py fetches it."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool here")
    kind, name = what
    done = subprocess.run(
        [promtool, "check", kind, MONITORING / name], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
