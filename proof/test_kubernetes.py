"""The manifests in examples/kubernetes start in a real Kubernetes, and a message goes through.

KUBERNETES_CONTEXT names the context of kubectl, as of a small cluster that kind or k3s has made; its nodes must have
the images (`make images EXTRA=spark`, then `kind load docker-image`). The namespace `kafka2011` is deleted in the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
CONTEXT = os.environ.get("KUBERNETES_CONTEXT", "")
NAMESPACE = "kafka2011"
TIMEOUT_S = 600

pytestmark = [
    pytest.mark.skipif(not CONTEXT, reason="KUBERNETES_CONTEXT names no context of kubectl: see the file's docstring"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
    pytest.mark.timeout(3 * TIMEOUT_S),
]


def kubectl(*arguments: str, text: str = "") -> str:
    """Run kubectl in the context, and return what it prints."""
    done = subprocess.run(
        ["kubectl", "--context", CONTEXT, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def applied() -> Iterator[None]:
    """Apply the manifests, and wait until all pods are ready; delete them in the end."""
    assert not kubectl("get", "namespace", NAMESPACE, "--ignore-not-found"), f"the namespace {NAMESPACE} is there"
    kubectl("apply", "-k", str(ROOT / "examples" / "kubernetes"))
    try:
        for workload in ("statefulset/zookeeper", "statefulset/broker", "statefulset/gateway", "daemonset/collector"):
            kubectl("-n", NAMESPACE, "rollout", "status", workload, f"--timeout={TIMEOUT_S - 10}s")
        yield
    finally:
        kubectl("delete", "namespace", NAMESPACE)


def in_broker(*arguments: str, text: str = "") -> str:
    """Run a command of ours in the first broker's pod."""
    return kubectl("-n", NAMESPACE, "exec", "-i", "broker-0", "--", "kafka2011", *arguments, text=text)


@pytest.mark.usefixtures("applied")
def test_a_message_goes_through_all_brokers() -> None:
    """It is confirmed and consumed, also after each broker's pod was replaced."""
    in_broker("topics", "create", "views")
    in_broker("produce", "views", text="one\n")
    kubectl("-n", NAMESPACE, "rollout", "restart", "statefulset/broker")
    kubectl("-n", NAMESPACE, "rollout", "status", "statefulset/broker", f"--timeout={TIMEOUT_S - 10}s")
    assert in_broker("consume", "--topic", "views", "--from-beginning", "--max-messages", "1") == "one\n"


@pytest.mark.usefixtures("applied")
def test_collected_lines_are_loaded() -> None:
    """The collectors publish the containers' logs, and a job made from the CronJob loads them."""
    kubectl("-n", NAMESPACE, "create", "job", "load-now", "--from=cronjob/load")
    kubectl("-n", NAMESPACE, "wait", "--for=condition=complete", f"--timeout={TIMEOUT_S - 10}s", "job/load-now")
    assert '"rows": ' in kubectl("-n", NAMESPACE, "logs", "job/load-now")
