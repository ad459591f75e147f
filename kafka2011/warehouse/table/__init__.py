"""Tables: commits, files, and the formats that they may have."""
