"""The clients that drive a server, each in a process of its own: one module a kind, run by `Worker`."""
