"""Sources of the rows of a kernel matrix: texts, vectors, tables, or a precomputed kernel matrix."""
