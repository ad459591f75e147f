"""What is wrong with a declared pipeline that can be seen from its clusters: `kafka2011 doctor --pipeline`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka2011.admin.doctor.checkup import Finding
from kafka2011.admin.groups import Groups
from kafka2011.audit.expected import Heard
from kafka2011.audit.pipeline import PipelineError, TierKind
from kafka2011.audit.reader import AuditReader
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.audit.run import expect
from kafka2011.errors import KafkaError
from kafka2011.topic_pattern import TopicPattern
from zk.audit import AuditNodes
from zk.brokers import BrokerRegistry
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.audit.pipeline import DeclaredCluster, Pipeline
    from kafka2011.config import SimpleConsumerConfig
    from zk.client import ZkClient

LATELY_MS = 3_600_000
"""Groups and mirrors report every ten seconds while they run, so who was silent for so long has stopped."""


def examine_pipeline(
    client: ZkClient,
    zk_connect: str,
    pipeline: Pipeline,
    connect: Callable[[str], ZkClient],
    config: SimpleConsumerConfig,
    now_ms: int,
) -> Iterator[Finding]:
    """Yield what is wrong with each declared cluster, and which tiers were not heard of lately in the one given."""
    for cluster in pipeline.clusters.values():
        with ExitStack() as stack:
            try:
                opened = stack.enter_context(connect(cluster.zookeeper))
                yield from _of_cluster(opened, pipeline, cluster)
            except ZkError as error:
                yield Finding(
                    f"cluster {cluster}",
                    f"its ZooKeeper does not answer: {error}",
                    f"start it, or correct clusters.{cluster.name} in {pipeline.path}",
                )
    try:
        yield from _silent(client, zk_connect, pipeline, config, now_ms)
    except PipelineError as error:
        yield Finding(f"pipeline {pipeline.path}", str(error), "give --zookeeper of a cluster that it declares")
    except KafkaError as error:
        remedy = f"see that tiers count: kafka2011 audit --pipeline {pipeline.path}"
        yield Finding(f"topic {AUDIT_TOPIC}", f"it cannot be read: {error}", remedy)


def _of_cluster(client: ZkClient, pipeline: Pipeline, cluster: DeclaredCluster) -> Iterator[Finding]:
    where, known_id = f"cluster {cluster}", AuditNodes(client).known_cluster_id()
    if cluster.id and known_id != cluster.id:
        what = f"its id is {known_id}" if known_id else "nobody has reported to it"
        remedy = f"correct clusters.{cluster.name}.id, or find out why this ZooKeeper is another one"
        yield Finding(where, f"{what}, and {pipeline.path} declares {cluster.id}", remedy)
    if not BrokerRegistry(client).brokers():
        yield Finding(where, "no broker is registered", "start one, or correct zookeeper, path included")
    topics = [topic for topic in BrokerRegistry(client).topics() if topic != AUDIT_TOPIC]
    for declared in pipeline.topics:
        is_there = any(passage.cluster == cluster for passage in pipeline.passages_of(declared))
        if is_there and not any(map(TopicPattern(declared.pattern).matches, topics)):
            remedy = "publish or mirror them, or correct pattern and origins"
            yield Finding(where, f"it has no topic that matches {declared.pattern!r}", remedy)
    groups = Groups(client).names()
    for tier in pipeline.tiers:
        if tier.group and tier.group not in groups and cluster.name in tier.clusters:
            yield Finding(where, f"it has no group {tier.group}, of tier {tier.name}", "start its members")


def _silent(
    client: ZkClient, zk_connect: str, pipeline: Pipeline, config: SimpleConsumerConfig, now_ms: int
) -> Iterator[Finding]:
    """Yield the groups and mirrors that have not reported lately. Loads and producers may run once a day."""
    expected = expect(client, pipeline, zk_connect)
    received, reader = ReceivedReports(), AuditReader(config)
    for _ in reader.read(client, (), now_ms - LATELY_MS // 2, received):  # it begins half an hour before
        pass
    for topic in expected.topics((), received):
        heard = expected.heard_of(topic, received)
        for tier, cluster in pipeline.passages(topic):
            if tier.kind in {TierKind.GROUP, TierKind.MIRROR} and Heard(topic, tier.name, cluster.name) not in heard:
                yield Finding(
                    f"tier {tier.name}",
                    f"it has reported nothing on topic {topic} in cluster {cluster} for an hour",
                    "start it, or see why its reports do not come here: a mirror has to copy the topic audit",
                )
