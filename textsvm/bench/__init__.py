"""Benchmarks against CPU baselines for installed users; ``benchmarks/`` in a checkout has the others."""
