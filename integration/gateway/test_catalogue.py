"""What a gateway knows of topics, with a real ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.gateway.catalogue import Catalogue
from kafka2011.gateway.partition_lists import ListsFile
from zk.brokers import BrokerRegistry
from zk.cluster import Broker, TopicPartition
from zk.connecting import connect

if TYPE_CHECKING:
    from pathlib import Path


def test_the_partitions_of_a_new_topic_are_numbered_once_all_are_there(zk_connect: str, tmp_path: Path) -> None:
    """They have the order of the brokers, unless others have created the topic: then that of the registrations."""
    with connect(zk_connect) as client:
        brokers = BrokerRegistry(client)
        brokers.ensure_parents()
        for number in (0, 1):
            brokers.register(Broker.created(number, "127.0.0.1", 19092 + number, 1795209775990))
        catalogue = Catalogue(client, ListsFile(tmp_path / "topics.json"), lambda: None)
        catalogue.registry.ensure_parents()
        with catalogue.creating("views"):
            brokers.register_topics(1, {"clicks": 1, "views": 1})
            catalogue.read()
            assert catalogue.lists.keys() == {"clicks"}
            brokers.register_topics(0, {"clicks": 1, "views": 1})
        catalogue.read()
        partitions = {topic: known.partitions for topic, known in catalogue.lists.items()}
        assert partitions == {
            "clicks": (TopicPartition("clicks", 1, 0), TopicPartition("clicks", 0, 0)),
            "views": (TopicPartition("views", 0, 0), TopicPartition("views", 1, 0)),
        }
        with catalogue.creating("views"):  # another client asks for it, and has waited meanwhile
            catalogue.read()
            assert catalogue.lists.keys() == {"clicks", "views"}
