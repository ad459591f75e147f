"""Messages in, rows of Arrow columns out."""
