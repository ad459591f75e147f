"""A model of the log: crashes at every change to the disk, and calls to the operating system that fail."""
