"""Sums and products of kernels equal what their parts say, wherever kernels are taken."""

import json
from dataclasses import dataclass

import numpy as np
import oracles
import pytest
from contracts import TEXTS, KernelContract, to_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from textsvm import (
    SVC,
    EditDistance,
    GapWeighted,
    InputError,
    Product,
    Spectrum,
    Sum,
    UserKernel,
    cross_validate,
    load,
    save,
    tune,
)
from textsvm.device import select
from textsvm.documents import Documents, View, encode
from textsvm.evaluation.explanation import explain
from textsvm.gram.plan import make_gram
from textsvm.gram.shared import grams
from textsvm.kernels import edit, spectrum

DOCUMENTS = ["red roses", "a rose is red", "rosy red", "green grass", "grass grows", "a green tree"] * 3
LABELS = ["red", "red", "red", "green", "green", "green"] * 3
NEW = ["reddish", "grassy green", "", "x", "a red tree grows"]
PARTS = [Spectrum((1, 3), "log", idf=True), EditDistance(0.2), GapWeighted(2, 0.5)]
CPU = select("cpu")


def gram_of(kernel, texts=tuple(DOCUMENTS), device=CPU):
    documents = encode(texts)
    return to_numpy(clone(kernel).fit(documents).rows(documents, device).gram())


def mean(*kernels):
    return lambda s, t: sum(kernel(s, t) for kernel in kernels) / len(kernels)


def gap_two(s, t):
    return oracles.gap(s, t, 2, 0.5)


class SumsContract(KernelContract):
    cases = [  # noqa: RUF012
        (Sum([Spectrum(2), GapWeighted(2, 0.5)]), None),
        (Sum([Sum([Spectrum(2), EditDistance(0.5)], [3, 1]), GapWeighted(2, 0.5)], [4, 1]), None),
        (Product([Spectrum(2), GapWeighted(2, 0.5)]), None),
        (Sum([Product([EditDistance(0.5), Spectrum(2)]), EditDistance(0.5)], [0, 2]), None),
    ]
