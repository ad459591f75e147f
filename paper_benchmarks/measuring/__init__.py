"""What a measurement stands on: processes of their own, what they use, counting, and the machine."""
