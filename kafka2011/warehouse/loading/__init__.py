"""Loads: ranges of topics into tables, each message once."""
