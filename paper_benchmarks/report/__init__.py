"""RESULTS.md, and the paper's claims held against what was measured."""
