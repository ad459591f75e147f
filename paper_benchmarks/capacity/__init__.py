"""What many brokers and messages need, from what one message was measured to cost; writes CAPACITY.md."""
