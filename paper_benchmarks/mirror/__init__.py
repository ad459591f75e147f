"""What a mirror costs a message, beside a consumer that only reads."""
