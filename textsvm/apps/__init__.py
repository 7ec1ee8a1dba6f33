"""Applications on the public names of textsvm and its trained models."""
