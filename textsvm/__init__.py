"""Text classification and regression with string-kernel support vector machines."""

from __future__ import annotations

# `typing` would be half of what a mail waits for in `textsvm.mail.client`; type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from textsvm.errors import InputError
    from textsvm.estimators.features import SpectrumFeatures
    from textsvm.estimators.one_class import OneClassSVM
    from textsvm.estimators.online import OnlineSVC
    from textsvm.estimators.svc import SVC
    from textsvm.estimators.svr import SVR
    from textsvm.evaluation.mutations import kmer_scores, mutation_scores
    from textsvm.gram.files import read_gram, write_gram
    from textsvm.kernels import (
        BoundedGap,
        EditDistance,
        GappedKmers,
        GapWeighted,
        Gaussian,
        Gkm,
        Linear,
        LocalityImproved,
        Mismatch,
        Oligo,
        On,
        Polynomial,
        Product,
        Sigmoid,
        Spectrum,
        Sum,
        UserKernel,
        WeightedDegree,
    )
    from textsvm.model.file import load, save
    from textsvm.model.libsvm import load_libsvm_model, save_libsvm_model
    from textsvm.nearest.neighbours import neighbours
    from textsvm.readers import Corpus, read_corpus, stream_corpus
    from textsvm.readers.libsvm import read_libsvm, write_libsvm
    from textsvm.runtime.workers import on_workers
    from textsvm.selection.calibration import CalibratedSVC
    from textsvm.selection.cross_validation import cross_validate
    from textsvm.selection.doubts import doubts
    from textsvm.selection.multilabel import MultilabelSVC
    from textsvm.selection.tuning import tune

__version__ = "0.2.0"

# Imported when first used: `import textsvm` loads neither scikit-learn nor Numba.
_HOME = {
    "SVC": "textsvm.estimators.svc",
    "SVR": "textsvm.estimators.svr",
    "OneClassSVM": "textsvm.estimators.one_class",
    "OnlineSVC": "textsvm.estimators.online",
    "SpectrumFeatures": "textsvm.estimators.features",
    "CalibratedSVC": "textsvm.selection.calibration",
    "MultilabelSVC": "textsvm.selection.multilabel",
    "cross_validate": "textsvm.selection.cross_validation",
    "doubts": "textsvm.selection.doubts",
    "tune": "textsvm.selection.tuning",
    "report": "textsvm.reporting.files",
    "kmer_scores": "textsvm.evaluation.mutations",
    "mutation_scores": "textsvm.evaluation.mutations",
    "Spectrum": "textsvm.kernels",
    "EditDistance": "textsvm.kernels",
    "GapWeighted": "textsvm.kernels",
    "BoundedGap": "textsvm.kernels",
    "GappedKmers": "textsvm.kernels",
    "WeightedDegree": "textsvm.kernels",
    "Oligo": "textsvm.kernels",
    "LocalityImproved": "textsvm.kernels",
    "Linear": "textsvm.kernels",
    "Polynomial": "textsvm.kernels",
    "Gaussian": "textsvm.kernels",
    "Gkm": "textsvm.kernels",
    "Mismatch": "textsvm.kernels",
    "Sigmoid": "textsvm.kernels",
    "On": "textsvm.kernels",
    "Sum": "textsvm.kernels",
    "Product": "textsvm.kernels",
    "UserKernel": "textsvm.kernels",
    "neighbours": "textsvm.nearest.neighbours",
    "read_gram": "textsvm.gram.files",
    "write_gram": "textsvm.gram.files",
    "Corpus": "textsvm.readers",
    "read_corpus": "textsvm.readers",
    "stream_corpus": "textsvm.readers",
    "read_libsvm": "textsvm.readers.libsvm",
    "write_libsvm": "textsvm.readers.libsvm",
    "load_libsvm_model": "textsvm.model.libsvm",
    "save_libsvm_model": "textsvm.model.libsvm",
    "load": "textsvm.model.file",
    "save": "textsvm.model.file",
    "on_workers": "textsvm.runtime.workers",
    "InputError": "textsvm.errors",
}

__all__ = [
    "SVC",
    "SVR",
    "BoundedGap",
    "CalibratedSVC",
    "Corpus",
    "EditDistance",
    "GapWeighted",
    "GappedKmers",
    "Gaussian",
    "Gkm",
    "InputError",
    "Linear",
    "LocalityImproved",
    "Mismatch",
    "MultilabelSVC",
    "Oligo",
    "On",
    "OneClassSVM",
    "OnlineSVC",
    "Polynomial",
    "Product",
    "Sigmoid",
    "Spectrum",
    "SpectrumFeatures",
    "Sum",
    "UserKernel",
    "WeightedDegree",
    "__version__",
    "cross_validate",
    "doubts",
    "kmer_scores",
    "load",
    "load_libsvm_model",
    "mutation_scores",
    "neighbours",
    "on_workers",
    "read_corpus",
    "read_gram",
    "read_libsvm",
    "report",
    "save",
    "save_libsvm_model",
    "stream_corpus",
    "tune",
    "write_gram",
    "write_libsvm",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'textsvm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
