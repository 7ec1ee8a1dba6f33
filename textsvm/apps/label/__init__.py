"""Labelling with the machine: which text to label next, what it has learnt, and when to stop."""
