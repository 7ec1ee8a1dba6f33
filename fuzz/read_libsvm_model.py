"""Models of LIBSVM's."""

import random
import tempfile
from pathlib import Path

import numpy as np

from textsvm import load_libsvm_model

from ._mutations import mutated
from ._reading import judge, written

SEEDS = (
    b"svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\nlabel 1 -1\n"
    b"nr_sv 1 1\nSV\n1 1:1 2:0.5 \n-1 1:-1 3:2 \n",
    b"svm_type c_svc\nkernel_type polynomial\ndegree 3\ngamma 1\ncoef0 0\nnr_class 3\ntotal_sv 3\nrho 0 0 0\n"
    b"label 0 1 2\nnr_sv 1 1 1\nSV\n1 0.5 1:1 \n-1 1 2:1 \n-1 -0.5 3:1 \n",
    b"svm_type epsilon_svr\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho -1\nSV\n0.5 1:2 \n",
    b"svm_type one_class\nkernel_type sigmoid\ngamma 1\ncoef0 0\nnr_class 2\ntotal_sv 1\nrho 1\nSV\n1 1:2 \n",
)
TOKENS = (
    *(
        b"nr_class 2\n",
        b"total_sv 99999999\n",
        b"SV\n",
        b"probA 1 2\n",
        b"kernel_type precomputed\n",
        b" 2147483647:1 ",
    ),
    *(
        b"svm_type nu_svc\n",
        b"rho",
        b"label",
        b"nr_sv 0 0\n",
        b":",
        b"-",
        b"nan",
        b"inf",
        b"degree 1000000\n",
    ),
)


def run(seed: int) -> None:
    made = random.Random(seed)
    content = mutated(made, SEEDS, TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), "m.model", content)
        judge(lambda: _use(path), f"seed {seed}, {content!r:.2000}")


def _use(path: Path) -> None:
    model = load_libsvm_model(path)
    with np.errstate(all="ignore"):
        width = model.support.n_features
        assert width is not None
        if width < 1 << 20:
            model.predict(np.zeros((1, width)))
