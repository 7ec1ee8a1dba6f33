"""Gapped, mismatch and gkm kernels: k-mers that may differ in some positions."""
