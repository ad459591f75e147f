"""One container with ZooKeeper and brokers, as testcontainers starts it."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from integration.compose.clusters import ROOT, docker, why_no_docker
from kafka2011 import ConsumerConnector, Producer
from kafka2011.errors import KafkaError
from kafka2011.testing import Kafka2011Container

# The first test may have to wait for the images that this one is built from.
pytestmark = pytest.mark.timeout(600)

NAME = os.environ.get("KAFKA_IMAGE", "kafka2011:test")


@pytest.fixture(scope="module")
def image() -> str:
    reason = why_no_docker()
    if reason is not None:
        pytest.skip(reason)
    build = [str(ROOT / "scripts" / "images.sh"), "all-in-one"]
    environ = {**os.environ, "KAFKA_IMAGE": NAME}
    done = subprocess.run(build, env=environ, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr
    return NAME.replace(":", "-all-in-one:")


@pytest.fixture(autouse=True)
def _no_reaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do without the container that cleans up after tests that died: its image is in a registry."""
    from testcontainers.core.config import testcontainers_config

    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)


def test_a_cluster_in_a_container(image: str) -> None:
    """Clients on the host reach its ZooKeeper and both brokers, and nothing is left of it."""
    container = Kafka2011Container(image, brokers=2, properties={"num.partitions": 2, "log.flush.interval": 1})
    with container as cluster:
        zookeeper = {"zk.connect": cluster.zk_connect}
        with Producer({**zookeeper, "confirm": True}) as producer:
            for n in range(20):
                producer.send("views", b"%d" % n, key=f"{n}").result()
        reader = {**zookeeper, "groupid": "g", "autooffset.reset": "smallest", "consumer.timeout.ms": 20_000}
        with ConsumerConnector(reader) as consumer:
            [stream] = consumer.create_message_streams({"views": 1})["views"]
            messages = [next(stream) for _ in range(20)]
        assert sorted(int(message.payload) for message in messages) == list(range(20))
        assert {message.broker_id for message in messages} == {0, 1}
        name = cluster.container.get_wrapped_container().name
        cluster.start()  # again does nothing
    container.stop()
    assert name not in docker("ps", "--all", "--format", "{{ .Names }}").split()
    with pytest.raises(KafkaError, match="was not started"):
        _ = container.zk_connect


def test_the_example_of_the_page(image: str) -> None:
    """What docs/how-to/testing.md shows works, here with the image that was built here."""
    page = (ROOT / "docs" / "how-to" / "testing.md").read_text(encoding="utf-8")
    *_, example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "Kafka2011Container(brokers" in example
    exec(example.replace("Kafka2011Container(", f"Kafka2011Container({image!r}, "), {})


def test_what_does_not_start_says_why(image: str) -> None:
    """A setting that no broker takes: the words of the container are in the error, and it goes."""
    with (
        pytest.raises(KafkaError, match=r"not ready: .*no\.such\.setting"),
        Kafka2011Container(image, properties={"no.such.setting": 1}),
    ):
        pass
    assert image not in docker("ps", "--all", "--format", "{{ .Image }}").split()
