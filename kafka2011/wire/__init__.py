"""Requests and responses as bytes, and the connection that clients send them over."""
