"""Messages and sets of them: the bytes on the wire and on disk. Knows nothing of sockets, files or ZooKeeper."""
