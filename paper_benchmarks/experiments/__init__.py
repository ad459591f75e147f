"""The experiments, one a module: each measures something and writes a chapter of the report about it."""
