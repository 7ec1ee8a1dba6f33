"""An encoder of textsvm as a folder of model2vec; no code."""
