"""What `iceberg_table.IcebergTable` is made of; it needs the extra `iceberg`."""
