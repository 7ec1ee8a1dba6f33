"""Text classification with string-kernel support vector machines."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textsvm.errors import InputError
    from textsvm.estimators.svc import SVC
    from textsvm.kernels import EditDistance, GapWeighted, Spectrum
    from textsvm.model_file import load, save
    from textsvm.readers import Corpus, read_corpus

__version__ = "0.1.0"

# Imported when first used: `import textsvm` loads neither scikit-learn nor Numba.
_HOME = {
    "SVC": "textsvm.estimators.svc",
    "Spectrum": "textsvm.kernels",
    "EditDistance": "textsvm.kernels",
    "GapWeighted": "textsvm.kernels",
    "Corpus": "textsvm.readers",
    "read_corpus": "textsvm.readers",
    "load": "textsvm.model_file",
    "save": "textsvm.model_file",
    "InputError": "textsvm.errors",
}

__all__ = [
    "SVC",
    "Corpus",
    "EditDistance",
    "GapWeighted",
    "InputError",
    "Spectrum",
    "__version__",
    "load",
    "read_corpus",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'textsvm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
