"""Measures this project, part by part and beside others. See docs/how-to/benchmarks.md."""
