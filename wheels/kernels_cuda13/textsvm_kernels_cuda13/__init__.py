"""Machine code of textsvm's CUDA kernels: an archive for each target of the compiler, and no code."""
