"""Text classification with string-kernel support vector machines."""
