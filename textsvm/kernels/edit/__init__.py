"""Edit-distance kernels."""
