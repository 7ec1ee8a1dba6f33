"""Sparse and dense rows and their products, on CPU and CUDA. Imports nothing from kernels."""
