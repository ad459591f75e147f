"""The manifests in examples/kubernetes fit Kubernetes' schemas, each other, and the settings and commands there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import kubernetes_validate
import pytest
import yaml

from kafka2011.cli import app
from kafka2011.config.broker import BrokerConfig
from kafka2011.config.gateway import GatewayConfig
from tests.test_commands_in_docs import parse
from tests.test_containers import COMPOSE, TAGGED

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY = Path(__file__).parent.parent / "examples" / "kubernetes"
VERSIONS = ("1.28", "1.37")
"""The first version with the label `apps.kubernetes.io/pod-index`, and the newest that the library knows."""
CONFIGS: dict[str, type[BrokerConfig | GatewayConfig]] = {"broker": BrokerConfig, "gateway": GatewayConfig}
STOP_S = {"zookeeper": 30, "broker": 60, "gateway": 30, "collector": 60, "load": 60}
"""Seconds that each has to stop, as in docker-compose.yml."""


class Workload(NamedTuple):
    """A manifest that starts pods, and what it says of each pod."""

    manifest: dict[str, Any]
    template: dict[str, Any]

    @property
    def name(self) -> str:
        name: str = self.manifest["metadata"]["name"]
        return name

    @property
    def pod(self) -> dict[str, Any]:
        pod: dict[str, Any] = self.template["spec"]
        return pod

    @property
    def container(self) -> dict[str, Any]:
        [container] = self.pod["containers"]
        return dict(container)

    @property
    def variables(self) -> dict[str, str]:
        return {each["name"]: each.get("value", "1") for each in self.container["env"]}


def manifests() -> Iterator[dict[str, Any]]:
    for name in kustomization()["resources"]:
        yield from yaml.safe_load_all((DIRECTORY / name).read_text(encoding="utf-8"))


def kustomization() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text(encoding="utf-8"))
    return found


def workloads() -> list[Workload]:
    found = []
    for manifest in manifests():
        spec = manifest.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            found.append(Workload(manifest, spec["template"]))
    return found


WORKLOADS = workloads()
OURS = [workload for workload in WORKLOADS if workload.name != "zookeeper"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", list(manifests()), ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_a_manifest_fits_the_schema_of_kubernetes(manifest: dict[str, Any], version: str) -> None:
    """Fields that the schema does not have are errors, too."""
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_misspelt_field_is_found() -> None:
    """The library compares strictly."""
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"selectors": {"app": "a"}}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)


def test_all_files_are_applied() -> None:
    """`kubectl apply -k` takes each file, and there is a workload for each part."""
    assert sorted(kustomization()["resources"]) == sorted(
        path.name for path in DIRECTORY.glob("*.yaml") if path.name != "kustomization.yaml"
    )
    assert {workload.name for workload in WORKLOADS} == STOP_S.keys()


def test_images_are_those_of_compose() -> None:
    """Tags are in one file, and ZooKeeper's image is the one of docker-compose.yml."""
    version = TAGGED.partition(":")[2]
    images = {image["name"]: f"{image['newName']}:{image['newTag']}" for image in kustomization()["images"]}
    assert images == {"kafka2011": TAGGED, "kafka2011-spark": f"kafka2011-spark:{version}"}
    assert {workload.container["image"] for workload in OURS} == images.keys()
    [zookeeper] = [workload for workload in WORKLOADS if workload.name == "zookeeper"]
    assert f"  image: {zookeeper.container['image']}\n" in COMPOSE


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_a_pod_has_no_more_than_it_needs(workload: Workload) -> None:
    """No variables of services, no token, no capabilities; volumes that are mounted are there; it has time to stop."""
    pod, container = workload.pod, workload.container
    assert pod["enableServiceLinks"] is False
    assert pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] == STOP_S[workload.name]
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"].get("runAsNonRoot", False) is (workload.name != "collector")
    claims = workload.manifest["spec"].get("volumeClaimTemplates", ())
    volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


@pytest.mark.parametrize("workload", OURS, ids=lambda workload: workload.name)
def test_commands_and_settings_exist(workload: Workload) -> None:
    """Arguments are those of a command, and each variable is a setting of it."""
    words = list(workload.container["args"])
    if words[0] == "kafka2011":
        del words[0]  # the image with Spark has no entry point
    assert workload.container["securityContext"]["readOnlyRootFilesystem"] is True
    config = CONFIGS.get(words[0])
    if config is None:
        parse(app.cli, words)
        assert workload.variables.keys() == {"KAFKA2011_ZK_CONNECT"}
    else:
        ours = {
            name: value.replace("$(POD_NAME)", "broker-0").replace("$(POD_NAMESPACE)", "kafka2011")
            for name, value in workload.variables.items()
            if name.startswith("KAFKA2011_")
        }
        settings = {"KAFKA2011_LOG_DIR": "/var/lib/kafka2011/logs"} if words[0] == "broker" else {}
        config.from_sources(environ={**settings, **ours})


@pytest.mark.parametrize("workload", OURS, ids=lambda workload: workload.name)
def test_the_probe_asks_a_port_that_listens(workload: Workload) -> None:
    """`/healthz` is at the port of metrics, which listens on the pod's address."""
    if workload.name == "load":
        assert "readinessProbe" not in workload.container  # it ends by itself
        return
    probe = workload.container["readinessProbe"]["httpGet"]
    ports = {port["name"]: port["containerPort"] for port in workload.container["ports"]}
    text = yaml.safe_dump([workload.container.get("args"), workload.variables])
    assert probe["path"] == "/healthz"
    assert re.search(rf"(?:--metrics-port=|METRICS_PORT: ')({ports[probe['port']]})\b", text)
    assert re.search(r"(?:--metrics-bind-address=|METRICS_BIND_ADDRESS: )0\.0\.0\.0", text)
    port = workload.variables.get("KAFKA2011_PORT")
    assert port is None or int(port) in ports.values()


def test_services_select_pods_and_name_their_ports() -> None:
    """Each service and each disruption budget selects the pods of one workload."""
    by_name = {workload.name: workload for workload in WORKLOADS}
    for manifest in manifests():
        if manifest["kind"] not in {"Service", "PodDisruptionBudget"}:
            continue
        workload = by_name[manifest["metadata"]["name"]]
        selector = manifest["spec"]["selector"]
        assert selector.get("matchLabels", selector) == workload.template["metadata"]["labels"]
        if manifest["kind"] == "Service":
            assert workload.manifest["spec"]["serviceName"] == manifest["metadata"]["name"]
            ports = {(port["name"], port["containerPort"]) for port in workload.container["ports"]}
            assert {(port["name"], port["port"]) for port in manifest["spec"]["ports"]} == ports


def test_all_are_told_the_same_zookeeper() -> None:
    """Clients name the servers of the ensemble that the manifest starts."""
    [zookeeper] = [workload for workload in WORKLOADS if workload.name == "zookeeper"]
    servers = re.findall(r"=(zookeeper-\d\.zookeeper):", zookeeper.variables["ZOO_SERVERS"])
    assert len(servers) == zookeeper.manifest["spec"]["replicas"]
    assert {workload.variables["KAFKA2011_ZK_CONNECT"] for workload in OURS} == {
        ",".join(f"{server}:2181" for server in servers)
    }
