"""The requests and responses of today's clients. Pure."""
