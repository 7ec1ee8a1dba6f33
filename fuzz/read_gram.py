"""Kernel matrices: .npy and LIBSVM's format of precomputed kernels."""

import random
import tempfile
from pathlib import Path

import numpy as np

from textsvm.gram.files import read_gram

from ._mutations import mutated
from ._reading import judge, written
from .read_npy import TOKENS, array, npy

TEXTS = (
    b"1 0:1 1:1 2:0.5\n-1 0:2 1:0.5 2:1\n",
    b"0 0:7 1:1 2:1 3:0\n",
    b"2 0:2 1:.25 2:1\n1 0:1 1:1 2:.25\n",
)
SYMBOLS = (b" 0:1", b" 1:", b":", b"nan", b"1e39", b"0x1", b" 2:0.5")


def run(seed: int) -> None:
    made = random.Random(seed)
    grams = [npy(np.eye(3, dtype=kind)) for kind in ("f4", "f8", "i1")]
    content = (
        mutated(made, TEXTS, SYMBOLS), mutated(made, grams, TOKENS), array(made),
    )[made.randrange(3)]  # fmt: skip
    n = made.choice((None, None, 2, 3))
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), "gram.npy", content)
        judge(lambda: read_gram(path, n), f"seed {seed}, n={n}, {content!r:.2000}")
