"""Cross-validation, grids, calibration and leakage, on a shared Gram."""
