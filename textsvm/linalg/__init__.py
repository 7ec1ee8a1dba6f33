"""Sparse and dense feature rows and their products, on the CPU and on GPUs."""
