"""Groups of today's clients: their members, and what they have committed."""
