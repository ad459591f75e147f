"""What our clients, and the broker under them, cost a message."""
