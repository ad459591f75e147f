"""What a broker tells Prometheus, and health checks."""
