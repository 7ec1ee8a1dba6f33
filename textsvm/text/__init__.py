"""Texts and their encoded form: normalisation, tokens, and the arrays of symbol codes that kernels read."""
