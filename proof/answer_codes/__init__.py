"""What today's clients do with each error code that the gateway may answer: drivers, the faulty gateway, the table."""
