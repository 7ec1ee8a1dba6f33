"""Learning problems, their duals, and solvers."""
