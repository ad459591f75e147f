"""What requests may hold in memory."""
