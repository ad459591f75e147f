"""From the brokers into tables: loads that never duplicate, and reports on them (paper, section 4)."""
