"""What estimators know of training examples before anything is learnt from their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textsvm.gram.base import Gram
from textsvm.kernels.base import Kernel


@dataclass(frozen=True)
class Prepared:
    """What is known of the training examples before anything is learnt from their labels.

    Attributes
    ----------
    examples : Examples
        The encoded documents, or the kernel matrix that was given.
    kernel : Kernel
        Fitted.
    gram : Gram
        Rows of the kernel matrix of all examples.
    seconds : dict
        Wall time of "encode" and "gram", as far as they were needed.
    """

    examples: Any
    kernel: Kernel
    gram: Gram
    seconds: dict[str, float]
