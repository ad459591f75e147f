"""The coordination layer: the paper's registries in ZooKeeper (section 3.2), with Kafka 0.7's znodes."""
