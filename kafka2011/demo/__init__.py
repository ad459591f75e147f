"""The demo: a log replayed through a real cluster while members and brokers come and go, and every line counted."""
