"""What many brokers and messages need: a model of brokers and of registries, and a small cluster beside it."""
