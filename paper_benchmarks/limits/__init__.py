"""Limits: what one broker, group or cluster takes, and what each more of it costs.

docs/reference/limits.md quotes the tables.

    python -m paper_benchmarks.limits connections partitions --size full

Each is measured twice, small and large: what grows faster than the work shows in the cost of one.
"""
