"""Logs on disk: segment files, appends, flushes, recovery, retention. Knows nothing of sockets or ZooKeeper."""
