"""The reasons that the paper gives for its figures, each measured within our own system by leaving it out."""
