"""Kernels that compare substrings by position."""
