"""Kernel machines: training and decisions on texts, vectors and tables. Imports no scikit-learn."""
