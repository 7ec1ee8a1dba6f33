"""Texts that are alike: the k nearest of each, or all pairs above a threshold."""
