"""One snapshot of a cluster: read once or kept current by watches, for commands, doctor, console and monitor."""
