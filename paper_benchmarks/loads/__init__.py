"""What loads into tables are measured with: messages, and those that load them."""
