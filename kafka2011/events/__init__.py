"""Events with Avro schemas: the library on which the rest of the pipeline is built. Needs the extra `pipeline`."""
