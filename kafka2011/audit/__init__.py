"""The audit: every tier counts the same windows of the same events, and the counts are compared (paper, section 4)."""
