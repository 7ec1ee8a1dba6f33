"""Text classification and regression with string-kernel support vector machines."""

from __future__ import annotations

from textsvm.version import __version__ as __version__

# Type checkers know this name; importing `typing` would take half of the start-up of the mail client.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from textsvm.apps.export.files import export as export
    from textsvm.errors import InputError as InputError
    from textsvm.estimators.calibrated import CalibratedSVC as CalibratedSVC
    from textsvm.estimators.calibrated import as_estimator as as_estimator
    from textsvm.estimators.features import SpectrumFeatures as SpectrumFeatures
    from textsvm.estimators.multilabel import MultilabelSVC as MultilabelSVC
    from textsvm.estimators.online import OnlineSVC as OnlineSVC
    from textsvm.estimators.svm import SVC as SVC
    from textsvm.estimators.svm import SVR as SVR
    from textsvm.estimators.svm import OneClassSVM as OneClassSVM
    from textsvm.evaluation.class_map import class_map as class_map
    from textsvm.evaluation.explanation import explain as explain
    from textsvm.evaluation.results import evaluate as evaluate
    from textsvm.evaluation.verification import verify as verify
    from textsvm.kernels import BoundedGap as BoundedGap
    from textsvm.kernels import EditDistance as EditDistance
    from textsvm.kernels import Encoder as Encoder
    from textsvm.kernels import GappedKmers as GappedKmers
    from textsvm.kernels import GapWeighted as GapWeighted
    from textsvm.kernels import Gaussian as Gaussian
    from textsvm.kernels import Gkm as Gkm
    from textsvm.kernels import Linear as Linear
    from textsvm.kernels import Mismatch as Mismatch
    from textsvm.kernels import On as On
    from textsvm.kernels import Polynomial as Polynomial
    from textsvm.kernels import Product as Product
    from textsvm.kernels import Sigmoid as Sigmoid
    from textsvm.kernels import Spectrum as Spectrum
    from textsvm.kernels import Sum as Sum
    from textsvm.kernels import UserKernel as UserKernel
    from textsvm.model.file import load as load
    from textsvm.model.file import save as save
    from textsvm.model.settings import Compute as Compute
    from textsvm.model.trained import TrainedModel as TrainedModel
    from textsvm.readers.corpus import Corpus as Corpus
    from textsvm.readers.read import read_corpus as read_corpus
    from textsvm.readers.stream import stream_corpus as stream_corpus
    from textsvm.reporting.files import report as report
    from textsvm.reporting.formatting import ProgressBars as ProgressBars
    from textsvm.runtime.workers import on_workers as on_workers
    from textsvm.selection.cross_validation import cross_validate as cross_validate
    from textsvm.selection.doubts import doubts as doubts
    from textsvm.selection.tuning import tune as tune
    from textsvm.text.pieces import Pieces as Pieces

#: Names by module, imported at first use: `import textsvm` loads neither scikit-learn nor Numba.
_NAMES = {
    "textsvm.errors": "InputError",
    "textsvm.estimators.calibrated": "CalibratedSVC as_estimator",
    "textsvm.estimators.features": "SpectrumFeatures",
    "textsvm.estimators.multilabel": "MultilabelSVC",
    "textsvm.estimators.online": "OnlineSVC",
    "textsvm.estimators.svm": "SVC SVR OneClassSVM",
    "textsvm.evaluation.class_map": "class_map",
    "textsvm.evaluation.verification": "verify",
    "textsvm.evaluation.explanation": "explain",
    "textsvm.apps.export.files": "export",
    "textsvm.evaluation.results": "evaluate",
    "textsvm.model.file": "load save",
    "textsvm.model.settings": "Compute",
    "textsvm.model.trained": "TrainedModel",
    "textsvm.readers.corpus": "Corpus",
    "textsvm.readers.read": "read_corpus",
    "textsvm.readers.stream": "stream_corpus",
    "textsvm.reporting.files": "report",
    "textsvm.reporting.formatting": "ProgressBars",
    "textsvm.runtime.workers": "on_workers",
    "textsvm.selection.cross_validation": "cross_validate",
    "textsvm.selection.doubts": "doubts",
    "textsvm.selection.tuning": "tune",
    "textsvm.text.pieces": "Pieces",
    "textsvm.kernels": (
        "BoundedGap EditDistance Encoder GappedKmers GapWeighted Gaussian Gkm Linear Mismatch On Polynomial "
        "Product Sigmoid Spectrum Sum UserKernel"
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'textsvm' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
