"""Kernels of subsequences with gaps."""
