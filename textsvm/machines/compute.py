"""How a machine computes: solver, kernel matrix and memory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from textsvm.errors import InputError

_NYSTROM = re.compile(r"nystrom:0*([1-9][0-9]{0,17})")


@dataclass(frozen=True)
class Compute:
    """How a machine computes: from kernel values or features, and where the kernel matrix is kept.

    Only `approximate` changes the model that is learnt. A machine takes ``compute=Compute(...)``, or None for
    the defaults; ``set_params(compute__memory="2GiB")`` sets a single parameter.

    Parameters
    ----------
    memory : int or str, optional
        Bytes for rows of the kernel matrix or of features, such as "2GiB"; on several GPUs the bytes of each.
        None: half of the free memory, for vectors on a CPU a quarter.
    store : path, optional
        Folder in which the kernel matrix is kept on disk (`textsvm.gram.store`). Every later training on the
        same texts reads it. A run that is killed resumes where it stopped.
    tier : {"auto", "device", "host", "disk", "recompute"}
        Where the kernel matrix is kept during training: on `device`; in main memory, with the rows in use on
        the GPU; in the `store`, with the rows in use in memory; or nowhere, with rows computed on demand.
        "auto" takes "device" if it fits, else the tier with the lowest predicted time; `gram_` says which. On
        a CPU "host" and "device" are the same.
    approximate : str, optional
        "nystrom:4096" replaces the kernel by its Nystroem approximation with 4,096 landmarks
        (`textsvm.kernels.nystroem`): 4,096 kernel values per text instead of a value for each pair of texts.
        The landmarks are drawn from the training texts without regard to labels, in model selection from each
        training part. Choose C again for the approximation.
    solver : {"auto", "gram", "features"}
        Train from kernel values, or from the features of kernels that have features: the optimum is the same.
        "auto" takes the solver with the lower predicted time; `gram_` says which.

    Examples
    --------
    >>> from textsvm import SVC, Compute, EditDistance
    >>> model = SVC(EditDistance(), compute=Compute(memory="1GiB"))
    >>> model.set_params(compute__tier="recompute").compute
    Compute(memory='1GiB', tier='recompute')
    """

    memory: int | str | None = None
    store: str | os.PathLike[str] | None = None
    tier: str = "auto"
    approximate: str | None = None
    solver: str = "auto"

    @property
    def landmarks(self) -> int | None:
        """Number of landmarks of `approximate`; InputError if it is neither None nor "nystrom:N"."""
        if self.approximate is None:
            return None
        match = _NYSTROM.fullmatch(self.approximate) if isinstance(self.approximate, str) else None
        if match is None:
            raise InputError(
                f'approximate={self.approximate!r} must be "nystrom:" and the number of landmarks, above 0, '
                'such as "nystrom:1000"; or None'
            )
        return int(match[1])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, for scikit-learn."""
        return dict(vars(self))

    def __sklearn_clone__(self) -> Compute:
        return self  # immutable

    def __repr__(self) -> str:
        changed = (
            f"{name}={value!r}" for name, value in vars(self).items() if value != getattr(Compute, name)
        )
        return f"Compute({', '.join(changed)})"
