"""Tables of Parquet files, whose commits are renames."""
