"""What an operator does to topics and groups, as functions over the registries and brokers."""
