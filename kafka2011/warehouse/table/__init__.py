"""Tables of Delta Lake, whose commits are entries of a log beside the rows."""
