"""The servers that are measured: how each is started, told how to keep messages, counted and stopped."""
