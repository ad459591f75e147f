"""The parts of `iceberg_table.IcebergTable`; needs the extra `iceberg`."""
