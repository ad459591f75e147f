"""Hostile bytes for whatever reads bytes: `python -m tests.fuzz`; CONTRIBUTING.md says how to use it."""
