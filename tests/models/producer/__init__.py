"""The shipped producer against brokers in trouble: many schedules from seeds, in memory, and a few over sockets."""
