"""What the gateway does with each kind of request."""
