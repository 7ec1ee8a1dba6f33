import numpy as np


def choose(decision, truth):
    return np.zeros(truth.shape[1])
