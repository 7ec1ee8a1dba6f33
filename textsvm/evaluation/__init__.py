"""Metrics and explanations of predictions, and comparisons of models."""
