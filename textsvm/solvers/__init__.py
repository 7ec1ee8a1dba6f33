"""A learning problem as one dual form, and the solver of it."""
