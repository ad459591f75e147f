"""Groups: today's clients are members of them beside those of 0.7, and what they commit."""
