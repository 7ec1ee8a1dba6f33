"""Text classification and regression with string-kernel support vector machines."""

from __future__ import annotations

# `typing` would be half of what a mail waits for in `textsvm.mail.client`; type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from textsvm.errors import InputError
    from textsvm.estimators.calibrated import CalibratedSVC
    from textsvm.estimators.features import SpectrumFeatures
    from textsvm.estimators.loading import load, load_libsvm_model
    from textsvm.estimators.multilabel import MultilabelSVC
    from textsvm.estimators.online import OnlineSVC
    from textsvm.estimators.svm import SVC, SVR, OneClassSVM
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
    from textsvm.machines.compute import Compute
    from textsvm.model.file import save
    from textsvm.model.libsvm import save_libsvm_model
    from textsvm.nearest.neighbours import neighbours
    from textsvm.readers.corpus import Corpus
    from textsvm.readers.libsvm import read_libsvm, write_libsvm
    from textsvm.readers.read import read_corpus
    from textsvm.readers.stream import stream_corpus
    from textsvm.reporting.files import report
    from textsvm.runtime.workers import on_workers
    from textsvm.selection.cross_validation import cross_validate
    from textsvm.selection.doubts import doubts
    from textsvm.selection.tuning import tune

__version__ = "0.2.0"

# Imported when first used: `import textsvm` loads neither scikit-learn nor Numba. Other names are kernels.
_HOME = {
    "SVC": "textsvm.estimators.svm",
    "SVR": "textsvm.estimators.svm",
    "Compute": "textsvm.machines.compute",
    "OneClassSVM": "textsvm.estimators.svm",
    "OnlineSVC": "textsvm.estimators.online",
    "SpectrumFeatures": "textsvm.estimators.features",
    "CalibratedSVC": "textsvm.estimators.calibrated",
    "MultilabelSVC": "textsvm.estimators.multilabel",
    "cross_validate": "textsvm.selection.cross_validation",
    "doubts": "textsvm.selection.doubts",
    "tune": "textsvm.selection.tuning",
    "report": "textsvm.reporting.files",
    "kmer_scores": "textsvm.evaluation.mutations",
    "mutation_scores": "textsvm.evaluation.mutations",
    "neighbours": "textsvm.nearest.neighbours",
    "read_gram": "textsvm.gram.files",
    "write_gram": "textsvm.gram.files",
    "Corpus": "textsvm.readers.corpus",
    "read_corpus": "textsvm.readers.read",
    "stream_corpus": "textsvm.readers.stream",
    "read_libsvm": "textsvm.readers.libsvm",
    "write_libsvm": "textsvm.readers.libsvm",
    "load_libsvm_model": "textsvm.estimators.loading",
    "save_libsvm_model": "textsvm.model.libsvm",
    "load": "textsvm.estimators.loading",
    "save": "textsvm.model.file",
    "on_workers": "textsvm.runtime.workers",
    "InputError": "textsvm.errors",
}

__all__ = [
    "SVC",
    "SVR",
    "BoundedGap",
    "CalibratedSVC",
    "Compute",
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

    if name not in __all__:
        raise AttributeError(f"module 'textsvm' has no attribute {name!r}")
    return getattr(import_module(_HOME.get(name, "textsvm.kernels")), name)


def __dir__() -> list[str]:
    return __all__
