"""p-spectrum kernels: common substrings."""
