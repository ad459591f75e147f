"""A process's part among the replicas of its broker id."""
