"""Chaos: a cluster whose processes and links fail by a seeded schedule, and the account of every message."""
