"""The parameter `approximate` of the estimators: "nystrom:4096"."""

from __future__ import annotations

import re
from typing import Any

from textsvm.errors import InputError

_FORM = re.compile(r"nystrom:0*([1-9][0-9]{0,17})")


def landmarks_of(approximate: Any) -> int | None:
    """How many landmarks are asked for; None if the kernel is not to be approximated.

    Raises
    ------
    InputError
        If it is neither None nor "nystrom:" and a whole number above 0.
    """
    if approximate is None:
        return None
    found = _FORM.fullmatch(approximate) if isinstance(approximate, str) else None
    if found is None:
        raise InputError(
            f'approximate={approximate!r} must be "nystrom:" and how many landmarks, a whole number above 0, '
            'such as "nystrom:1000"; or None'
        )
    return int(found[1])


def check_approximate(approximate: Any, kernel: object) -> None:
    """Raise InputError if `approximate` is out of range, or does not go with the kernel."""
    if landmarks_of(approximate) is None:
        return
    from textsvm.estimators.default import is_default  # and with it scikit-learn

    if is_default(kernel):
        raise InputError(
            f"approximate is for a kernel that is named; kernel={kernel!r} takes one that is exact with any "
            "number of documents; name one, such as gap, or leave approximate out"
        )
    if isinstance(kernel, str) and kernel == "precomputed":
        raise InputError("a kernel matrix that is given is not approximated; leave approximate out")
