"""Parts that several families of kernels use."""
