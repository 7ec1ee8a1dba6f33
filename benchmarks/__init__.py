"""Benchmarks of textsvm, run from a checkout: each checks equality before it prints a time."""
