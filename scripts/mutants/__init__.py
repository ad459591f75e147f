"""Mutation testing: one small change to shipped code at a time, to see whether some unit test notices it."""
