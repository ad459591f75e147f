"""Tests of other clients' projects against a gateway: how each suite is made ready, run, and read."""
