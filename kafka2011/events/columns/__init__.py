"""How the schemas of a topic become the columns of its table. Pure rules: they need neither Arrow nor a table."""
