"""Model selection on shared rows: cross-validation, tuning by grids and by search, and doubtful labels."""
