"""The servers that are measured: how each is started, told how to keep messages, counted and stopped.

Another one is a module here with its `Kind`, a line in `kinds`, and a module of the same name in
`paper_benchmarks.clients` with its clients.
"""
