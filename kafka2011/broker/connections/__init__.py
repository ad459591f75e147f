"""Accepted connections: sockets, TLS, and what goes out on them."""
