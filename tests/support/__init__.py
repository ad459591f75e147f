"""What the tests of several parts share: import it as `tests.support`."""
