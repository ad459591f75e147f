"""Record batches of today's clients, and the sets of 0.7 that hold the same. Pure."""
