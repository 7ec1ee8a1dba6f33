"""Documents as sparse rows of features, and products of such rows."""
