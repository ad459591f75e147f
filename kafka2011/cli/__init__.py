"""The command line: each command in a module of its own, imported only when it runs."""
