"""What the rows of a kernel matrix are made of: texts, or a kernel matrix that was given."""
