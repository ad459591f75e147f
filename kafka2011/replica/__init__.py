"""Replicas of one broker id: who of them leads, how the others follow, and what may be read. Pure."""
