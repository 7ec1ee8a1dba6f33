"""Kernels of numeric vectors."""
