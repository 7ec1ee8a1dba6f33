"""A trained estimator as one file: safetensors arrays and a JSON header, no code in it.

What is saved is the CPU form: the encoded support vectors, the coefficients and biases of the machines, the
classes, the kernel's parameters and what it learnt, how texts are normalised, and the calibration if there
is one. A digest tells a damaged file (model_bytes.py). Everything is checked against its bounds when read,
too: a hostile file gives an error and never runs anything.

The coefficients, shape (n_machines, n_sv), are an array "dual_coef", or where most of them are 0 (a
one-vs-one machine uses the support vectors of two classes) its compressed rows: "dual_coef.data", ".columns"
and ".starts". Format 1 had one machine, and neither weights nor strategies.

Format 3 is that of models without texts: in place of support vectors and coefficients there is one weight a
feature (`Weights`). Whatever else is saved has format 2, which older versions read.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import textsvm
from textsvm.errors import InputError
from textsvm.estimators.base import landmarks_of
from textsvm.estimators.decisions import check_reject, checked_maps
from textsvm.kernels.contract import under
from textsvm.kernels.inputs import TextForm
from textsvm.model.bytes import Content, is_libsvm_model, one_line, packed, read
from textsvm.model.parts import (
    as_count,
    finite,
    label_form,
    pack_coef,
    read_classes,
    read_coef,
    read_kernel,
    read_label,
)
from textsvm.runtime.files import replacing
from textsvm.solvers.class_scores import STRATEGIES, number_of_machines
from textsvm.sources.texts import TextSource

if TYPE_CHECKING:
    from textsvm.estimators.base import KernelMachine
    from textsvm.selection.calibration import CalibratedSVC
    from textsvm.sources.base import Kept, Source

FORMAT_VERSION, WITHOUT_TEXTS = 2, 3
_SHARED = ("normalise", "punctuation", "max_length", "tol", "duality_gap", "max_iter")
#: Estimators by name, and the parameters that are kept.
_PARAMETERS = {
    "SVC": ("C", "multiclass", "class_weight", *_SHARED),
    "SVR": ("C", "epsilon", *_SHARED),
    "OneClassSVM": ("nu", *_SHARED),
    "MultilabelSVC": ("C", "thresholds", "random_state", *_SHARED),
}
#: Kept only where it is given.
_APPROXIMATE = "approximate"
_CLASSIFIERS = ("SVC", "MultilabelSVC")
_CALIBRATION = ("method", "reject")
_MAPS, _CONFORMITY = "calibration.", "conformity."


def save(
    model: KernelMachine | CalibratedSVC,
    path: str | os.PathLike[str],
    info: dict[str, Any] | None = None,
    texts: bool = True,
) -> None:
    """Write a fitted estimator.

    Parameters
    ----------
    model : SVC, MultilabelSVC, SVR, OneClassSVM or CalibratedSVC
        Fitted.
    path : path
        Replaced only once the new file is complete.
    info : dict, optional
        JSON values to keep with it: what it was trained on, and how.
    texts : bool
        False: one weight a feature in place of the support vectors, whose texts are not in the file then; for
        spectrum kernels and sums of them. Values move by 1e-6 at most. A training text that has no feature,
        being shorter than p, is left out, with a warning: its equals get the biases alone.

    Raises
    ------
    InputError
        If the file cannot be written, the kernel is a function of the user's, or has no weights and there are
        to be no texts, or a label or `info` is of a kind that a file cannot hold.
    sklearn.exceptions.NotFittedError
        If `model` is not fitted.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, load, save
    >>> model = SVC(Spectrum(3)).fit(["win cash now", "lunch at noon"], ["spam", "ham"])
    >>> save(model, "spam.textsvm", info={"made": "today"})
    >>> load("spam.textsvm").predict(["cash"]).tolist()
    ['spam']
    """
    from sklearn.utils.validation import check_is_fitted

    from textsvm.selection.calibration import CalibratedSVC

    _require_ours(model)
    check_is_fitted(model)
    machine = model.estimator_ if isinstance(model, CalibratedSVC) else model
    kept = machine.kept if texts else _without_texts(machine)
    header, arrays = _machine_form(machine, kept)
    if isinstance(model, CalibratedSVC):
        header["calibration"] = {name: getattr(model, name) for name in _CALIBRATION}
        arrays.update({_MAPS + name: array for name, array in model.calibration_state().items()})
        if model.conformity_ is not None:
            arrays.update({_CONFORMITY + name: array for name, array in model.conformity_.state().items()})
    header = {
        "format_version": FORMAT_VERSION if kept.weights is None else WITHOUT_TEXTS,
        "written_by": f"textsvm {textsvm.__version__}",
        **header,
        "info": info or {},
    }
    content = packed(header, arrays)
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _require_ours(model: Any) -> None:
    """Raise InputError for what has another way of being kept."""
    name = type(model).__name__
    if name in _PARAMETERS or name == "CalibratedSVC":
        return
    remedy = "joblib can keep it"
    if any(type(step).__name__ in _PARAMETERS for _, step in getattr(model, "steps", [])):
        remedy = "save its last step, or keep the whole with joblib"
    raise InputError(f"save writes {', '.join(_PARAMETERS)} and CalibratedSVC, and not {name}; {remedy}")


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator written by `save`; its ``info_`` is what was saved with it.

    Its ``digest_`` is that of the file, which was checked; None if the file is older than digests, and damage
    to it cannot be noticed (saved again, it has one).

    A model of LIBSVM's is understood too, see `load_libsvm_model`.

    Raises
    ------
    InputError
        If there is no such file, or it is damaged, of another program or of a newer version.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, load, save
    >>> save(SVC(Spectrum(3)).fit(["win cash now", "lunch at noon"], ["spam", "ham"]), "spam.textsvm")
    >>> model = load("spam.textsvm")
    >>> model.kernel_, model.classes_.tolist()
    (Spectrum(p=3), ['ham', 'spam'])
    """
    if is_libsvm_model(path):
        return textsvm.load_libsvm_model(path)
    return _built(path, _read(Path(path)), _build)


def load_fitted(path: str | os.PathLike[str]) -> Any:
    """The same for who wants nothing but decisions: quicker where texts are compared (`estimators.fitted`).

    Raises
    ------
    InputError
        As `load` does.
    """
    return load(path) if is_libsvm_model(path) else _built(path, _read(Path(path)), _build_fitted)


def read_fitted(path: str | os.PathLike[str]) -> tuple[Any, Content]:
    """The same, and what is in the file; raises InputError as `load` does, and if it is LIBSVM's."""
    content = _read(Path(path))
    return _built(path, content, _build_fitted), content


def _built(path: str | os.PathLike[str], content: Content, build: Callable[..., Any]) -> Any:
    """What a file holds, or one sentence why nothing can be made of it."""
    header, arrays, digest = content
    try:
        if not isinstance(header["info"], dict):
            raise InputError("its information is not an object")
        model = build(header, arrays)
        model.digest_ = digest
        return model
    except InputError as error:
        raise InputError(f"{path} is not a usable model: {one_line(error)}") from error
    except KeyError as error:
        raise InputError(f"{path} is damaged: it has no {one_line(error)}; train it again") from error
    except MemoryError as error:
        raise InputError(f"{path} takes more main memory than there is: {one_line(error)}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is damaged: {one_line(error)}; train it again") from error


def require_weights(model: Any) -> None:
    """Raise InputError if a model, before it is trained, could not be saved without texts."""
    (getattr(model, "estimator", None) or model).source.require_weights()


def _without_texts(model: KernelMachine) -> Kept:
    kept = model.source.without_texts(model.kept, model.dual_coef_)
    if kept.weights is not None and kept.weights.left_out:
        warnings.warn(
            f"{kept.weights.left_out:,} support vectors have no feature, being shorter than p, and are left "
            "out of a model without texts: texts equal to them get the biases alone",
            stacklevel=3,
        )
    return kept


def _machine_form(model: KernelMachine, kept: Kept) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a kernel machine."""
    kernel, state = model.source.state(kept)
    arrays = {"intercept": model.intercept_, **state}
    if kept.weights is None:
        arrays |= {"support": model.support_, **pack_coef(model.dual_coef_)}
    name = type(model).__name__
    parameters = {parameter: getattr(model, parameter) for parameter in _PARAMETERS[name]}
    if "C" in parameters:
        parameters["C"] = getattr(model, "C_", parameters["C"])  # of a kernel that was chosen
    if model.approximate is not None:
        parameters[_APPROXIMATE] = model.approximate
    if isinstance(parameters.get("class_weight"), Mapping):
        parameters["class_weight"] = [[label_form(a), w] for a, w in parameters["class_weight"].items()]
    header = {
        "estimator": name,
        "kernel": kernel,
        "parameters": parameters,
        "classes": [label_form(label) for label in model.classes_] if name in _CLASSIFIERS else None,
        "n_support": model.n_support_.tolist(),
        "n_features_in": model.kept.n_features,
        "chosen": getattr(model, "chosen_", ""),
    }
    if name == "MultilabelSVC":
        header["label_form"], arrays["thresholds"] = model.label_form_, model.thresholds_
    return header, arrays


def _read(path: Path) -> Content:
    content = read(path)
    version = content.header["format_version"]
    if type(version) is not int or version not in range(1, WITHOUT_TEXTS + 1):
        raise InputError(
            f"{path} has model format {repr(version)[:40]}, and this is textsvm {textsvm.__version__}, which "
            f"reads formats 1 to {WITHOUT_TEXTS}; train it again, or use the version that wrote it "
            f"({repr(content.header.get('written_by', 'unknown'))[:40]})"
        )
    return content


def _build(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    machine = _build_machine(header, arrays)
    if "calibration" not in header:
        return machine
    from sklearn.base import clone

    from textsvm.selection.calibration import CalibratedSVC

    if type(machine).__name__ != "SVC":
        raise InputError("it calibrates something that is no classifier")
    given = header["calibration"]
    model = CalibratedSVC(clone(machine), **{name: given[name] for name in _CALIBRATION})
    model.check()
    return model.restore(machine, under(_MAPS, arrays), under(_CONFORMITY, arrays))


def _build_machine(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> KernelMachine:
    name, parameters, kernel = _given(header)
    model: KernelMachine = getattr(textsvm, name)(kernel=kernel, **parameters)
    model.check()
    classes = read_classes(header["classes"]) if name in _CLASSIFIERS else None
    machines = model.n_machines(0 if classes is None else len(classes))
    kept, dual_coef, intercept = _machines(header, arrays, model.source, machines)
    if kept.n_features is not None:
        model.n_features_in_ = kept.n_features
    model.restore(kept.kernel, kept.documents, kept.support, dual_coef, intercept, classes, header["info"])
    model.weight_vectors_ = kept.weights
    if name == "SVC":
        model.__dict__.update(C_=parameters["C"], chosen_=str(header.get("chosen", "")))
    multilabel = isinstance(model, textsvm.MultilabelSVC)
    if multilabel:
        model.restore_labels(finite(arrays, "thresholds"), header["label_form"])
    if multilabel and kept.weights is None:
        model.n_support_ = (dual_coef != 0).sum(axis=1)
    else:
        model.n_support_ = _n_support(header, classes, dual_coef)
    return model


def _build_fitted(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    from textsvm.estimators import fitted

    name, parameters, kernel = _given(header)
    if getattr(kernel, "reads", "") != "texts":
        return _build(header, arrays)
    form = TextForm(*(parameters[one] for one in ("normalise", "punctuation", "max_length")))
    source = TextSource(kernel, form, landmarks_of(parameters.get(_APPROXIMATE)))
    source.check()
    classes = read_classes(header["classes"]) if name in _CLASSIFIERS else None
    strategy, n_classes = parameters.get("multiclass", "ovr"), 0 if classes is None else len(classes)
    if strategy not in STRATEGIES:
        raise InputError(f"multiclass={strategy!r} is not one of {', '.join(STRATEGIES)}")
    several = {"SVC": number_of_machines(n_classes, strategy), "MultilabelSVC": n_classes}
    made = *_machines(header, arrays, source, several.get(name, 1)), header["info"]
    if classes is None:
        return (fitted.FittedRegressor if name == "SVR" else fitted.FittedOneClass)(source, *made)
    thresholds = finite(arrays, "thresholds") if name == "MultilabelSVC" else None
    if thresholds is not None and thresholds.shape != (n_classes,):
        raise InputError("its thresholds do not fit its labels")
    machine = fitted.FittedClassifier(source, *made, classes, strategy, thresholds)
    if "calibration" not in header:
        return machine
    if name != "SVC":
        raise InputError("it calibrates something that is no classifier")
    check_reject(reject := header["calibration"]["reject"], classes)
    return fitted.FittedCalibrated(machine, checked_maps(under(_MAPS, arrays), n_classes), reject)


def _given(header: dict[str, Any]) -> tuple[str, dict[str, Any], Any]:
    """The name of an estimator, its parameters, and its kernel or the name of one."""
    name = header["estimator"]
    if name not in _PARAMETERS:
        raise InputError(f"its estimator {name!r} is not known to this version")
    given, known = header["parameters"], _PARAMETERS[name]
    if header["format_version"] == 1:
        known = tuple(parameter for parameter in known if parameter not in ("multiclass", "class_weight"))
    parameters = {parameter: given[parameter] for parameter in known}
    if _APPROXIMATE in given:
        parameters[_APPROXIMATE] = given[_APPROXIMATE]
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = {read_label(form): weight for form, weight in parameters["class_weight"]}
    kernel = read_kernel(header["kernel"]) if isinstance(header["kernel"], dict) else header["kernel"]
    return name, parameters, kernel


def _machines(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], source: Source, machines: int
) -> tuple[Kept, NDArray[np.float64], NDArray[np.float64]]:
    """What so many machines keep, their coefficients and biases."""
    texts = header["format_version"] != WITHOUT_TEXTS
    intercept, support = finite(arrays, "intercept"), arrays["support"] if texts else np.empty(0, np.int64)
    if intercept.shape != (machines,):
        raise InputError(f"it has {intercept.size} biases and needs {machines}")
    if support.ndim != 1 or support.dtype != np.int64 or (len(support) and support[0] < 0):
        raise InputError("its support indices are not one row of 64-bit integers of at least 0")
    if (support[1:] <= support[:-1]).any():
        raise InputError("its support indices do not ascend")
    n_features = header.get("n_features_in")
    kept = source.restore(None if n_features is None else as_count(n_features), support, arrays)
    if texts != (kept.weights is None) or (kept.weights and kept.weights.n_machines != machines):
        raise InputError("its weights do not fit its machines, or its format")
    dual_coef = read_coef(arrays, (machines, len(support))) if texts else np.empty((machines, 0))
    return kept, dual_coef, intercept


def _n_support(
    header: dict[str, Any], classes: NDArray[Any] | None, dual_coef: NDArray[np.float64]
) -> NDArray[np.int64]:
    if header["format_version"] == 1:
        return np.array([(dual_coef < 0).sum(), (dual_coef > 0).sum()])
    n_support = np.array([as_count(count) for count in header["n_support"]], np.int64)
    known = header["format_version"] == WITHOUT_TEXTS or n_support.sum() == dual_coef.shape[1]
    if len(n_support) != (1 if classes is None else len(classes)) or not known:
        raise InputError("its numbers of support vectors do not fit its classes and support vectors")
    return n_support
