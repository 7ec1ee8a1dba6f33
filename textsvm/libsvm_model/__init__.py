"""Model files of LIBSVM, in both directions: `svm-train` writes for us, and we for `svm-predict`.

A file is a header of `keyword value ...` lines up to a line `SV`, then a line a support vector, of which a
vector has index:value pairs and before them one coefficient for each other class:

    c_1 ... c_(k-1) index:value index:value ...

Classes L_0 ... L_(k-1) are in the order of `label`, support vectors lie class by class, nr_sv of each. The
machine of the classes i < j, number p in the order (0,1), (0,2), ..., (1,2), ..., decides for L_i where

    sum over the vectors of i of c_(j-1) K(x_s, x)  +  sum over those of j of c_i K(x_s, x)  -  rho_p  >  0.

Here classes ascend and a machine (a, b), a < b, decides for b where its value is positive: a sign that
changes with the order of L_i and L_j. Files are written with classes that descend, so that no sign changes.
"""

from __future__ import annotations

from textsvm.libsvm_model.read import fit_columns, is_libsvm_model, load_libsvm_model, widened
from textsvm.libsvm_model.write import require_libsvms, save_libsvm_model

__all__ = [
    "fit_columns",
    "is_libsvm_model",
    "load_libsvm_model",
    "require_libsvms",
    "save_libsvm_model",
    "widened",
]
