"""Bringing logs to disk."""
