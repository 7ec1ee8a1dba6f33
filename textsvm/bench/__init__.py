"""Benchmarks: equality first, then time."""
