"""Which number each message of a partition has, and where it lies. Pure, all but the file of an index."""
