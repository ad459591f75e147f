"""The proof of what today's clients do with each error code: drivers, a faulty gateway, the table."""
