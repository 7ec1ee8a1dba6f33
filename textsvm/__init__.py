"""Text classification and regression with string-kernel support vector machines."""

from __future__ import annotations

from textsvm.version import __version__ as __version__

# Type checkers know this name; importing `typing` would take half of the start-up of the mail client.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from textsvm.apps.export.files import export
    from textsvm.errors import InputError
    from textsvm.estimators.calibrated import CalibratedSVC, as_estimator
    from textsvm.estimators.features import SpectrumFeatures
    from textsvm.estimators.multilabel import MultilabelSVC
    from textsvm.estimators.online import OnlineSVC
    from textsvm.estimators.svm import SVC, SVR, OneClassSVM
    from textsvm.evaluation.class_map import class_map
    from textsvm.evaluation.explanation import explain
    from textsvm.evaluation.results import evaluate
    from textsvm.evaluation.verification import verify
    from textsvm.kernels import (
        BoundedGap,
        EditDistance,
        Encoder,
        GappedKmers,
        GapWeighted,
        Gaussian,
        Gkm,
        Linear,
        Mismatch,
        On,
        Polynomial,
        Product,
        Sigmoid,
        Spectrum,
        Sum,
        UserKernel,
    )
    from textsvm.model.file import load, save
    from textsvm.model.settings import Compute
    from textsvm.model.trained import TrainedModel
    from textsvm.readers.corpus import Corpus
    from textsvm.readers.read import read_corpus
    from textsvm.readers.stream import stream_corpus
    from textsvm.reporting.files import report
    from textsvm.reporting.formatting import ProgressBars
    from textsvm.runtime.workers import on_workers
    from textsvm.selection.cross_validation import cross_validate
    from textsvm.selection.doubts import doubts
    from textsvm.selection.tuning import tune
    from textsvm.text.pieces import Pieces

#: Names by module, imported at first use: `import textsvm` loads neither scikit-learn nor Numba. All other
#: names are kernels.
_NAMES = {
    "textsvm.errors": ("InputError",),
    "textsvm.estimators.calibrated": ("CalibratedSVC", "as_estimator"),
    "textsvm.estimators.features": ("SpectrumFeatures",),
    "textsvm.estimators.multilabel": ("MultilabelSVC",),
    "textsvm.estimators.online": ("OnlineSVC",),
    "textsvm.estimators.svm": ("SVC", "SVR", "OneClassSVM"),
    "textsvm.evaluation.class_map": ("class_map",),
    "textsvm.evaluation.verification": ("verify",),
    "textsvm.evaluation.explanation": ("explain",),
    "textsvm.apps.export.files": ("export",),
    "textsvm.evaluation.results": ("evaluate",),
    "textsvm.model.file": ("load", "save"),
    "textsvm.model.settings": ("Compute",),
    "textsvm.model.trained": ("TrainedModel",),
    "textsvm.readers.corpus": ("Corpus",),
    "textsvm.readers.read": ("read_corpus",),
    "textsvm.readers.stream": ("stream_corpus",),
    "textsvm.reporting.files": ("report",),
    "textsvm.reporting.formatting": ("ProgressBars",),
    "textsvm.runtime.workers": ("on_workers",),
    "textsvm.selection.cross_validation": ("cross_validate",),
    "textsvm.selection.doubts": ("doubts",),
    "textsvm.selection.tuning": ("tune",),
    "textsvm.text.pieces": ("Pieces",),
}

__all__ = [
    "SVC",
    "SVR",
    "BoundedGap",
    "CalibratedSVC",
    "Compute",
    "Corpus",
    "EditDistance",
    "Encoder",
    "GapWeighted",
    "GappedKmers",
    "Gaussian",
    "Gkm",
    "InputError",
    "Linear",
    "Mismatch",
    "MultilabelSVC",
    "On",
    "OneClassSVM",
    "OnlineSVC",
    "Pieces",
    "Polynomial",
    "Product",
    "ProgressBars",
    "Sigmoid",
    "Spectrum",
    "SpectrumFeatures",
    "Sum",
    "TrainedModel",
    "UserKernel",
    "__version__",
    "as_estimator",
    "class_map",
    "cross_validate",
    "doubts",
    "evaluate",
    "explain",
    "export",
    "load",
    "on_workers",
    "read_corpus",
    "report",
    "save",
    "stream_corpus",
    "tune",
    "verify",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'textsvm' has no attribute {name!r}")
    module = next((module for module, names in _NAMES.items() if name in names), "textsvm.kernels")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
