"""Cross-validation, grids and leakage, all on one shared Gram."""
