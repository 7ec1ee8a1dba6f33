"""Search for similar texts: the k nearest of each, or all pairs above a threshold."""
