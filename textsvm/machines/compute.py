"""How a machine computes: solver, kernel matrix and memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Compute:
    """How a machine computes: what it is trained from, and where the kernel matrix is kept.

    None of these parameters but `approximate` changes the model that is learnt. A machine takes them as
    ``compute=Compute(...)``, None for the defaults; ``set_params(compute__memory="2GiB")`` sets single ones.

    Parameters
    ----------
    memory : int or str, optional
        Bytes that rows of the kernel matrix, or of features, may take ("2GiB" is understood); on several GPUs
        the bytes of each. None: half of the free memory, for vectors on a CPU a quarter.
    store : path, optional
        Folder in which the kernel matrix is kept on disk (`textsvm.gram.store`). Every later training on the
        same texts reads it. A run that is killed resumes where it stopped.
    tier : {"auto", "device", "host", "disk", "recompute"}
        Where the kernel matrix is kept while it is solved: whole on `device`; whole in main memory, with the
        rows in use on the card; in the `store`, with the rows in use in memory; or nowhere, rows being
        computed on demand. "auto" takes the first if it fits, else the tier with the lowest predicted time;
        `gram_` says which. On a CPU "host" and "device" are the same.
    approximate : str, optional
        "nystrom:4096" replaces the kernel by its Nystroem approximation with 4,096 landmarks
        (`textsvm.kernels.nystroem`): 4,096 kernel values a text instead of one with each other text. The
        landmarks are drawn from the texts alone, not from labels, and in model selection from each training
        part. Choose C anew on it.
    solver : {"auto", "gram", "features"}
        Train from kernel values, or from the features of kernels that have them: the same optimum, for any
        number of documents. "auto" takes the way with the lower predicted time; `gram_` says which.

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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn asks for them."""
        return dict(vars(self))

    def __sklearn_clone__(self) -> Compute:
        return self  # nothing can change it

    def __repr__(self) -> str:
        changed = (
            f"{name}={value!r}" for name, value in vars(self).items() if value != getattr(Compute, name)
        )
        return f"Compute({', '.join(changed)})"
