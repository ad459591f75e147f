"""The doctor: looks at a whole cluster, and says what is wrong with it and what to do."""
