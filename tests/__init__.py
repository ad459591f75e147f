"""Tests without ZooKeeper. `tests.support` is what they and those in `integration` share."""
