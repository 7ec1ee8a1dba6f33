"""Sums and products of kernels, and kernels on columns of a table."""
