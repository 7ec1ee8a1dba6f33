"""Rows of the kernel matrix: the only thing a solver sees."""
