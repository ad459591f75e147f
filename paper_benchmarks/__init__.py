"""Measures this project, part by part and beside others; docs/benchmarks.md says how and what each figure means."""
