"""Choice of the default kernel and C by cross-validation within a time budget."""
