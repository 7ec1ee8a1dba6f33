"""A trained model as a file of safetensors arrays and a JSON header, without code.

The file has the CPU form of the model: encoded support vectors, coefficients and biases of the machines,
classes, the kernel's parameters and learnt state, how texts are normalised, and the calibration of a
calibrated model. A digest detects damage. Names, shapes, types and ranges are checked on load
whether or not the digest is correct, so a hostile file raises InputError and never runs code.

The coefficients, shape (n_machines, n_sv), are the array "dual_coef", or the arrays "dual_coef.data",
".columns" and ".starts" of a sparse matrix (CSR) where these take fewer bytes: a one-vs-one machine uses only
the support vectors of two classes. Neither form is compressed.

Format 3 is for models without texts: a weight for each feature (`Weights`) replaces support vectors and
coefficients. Format 4 is for models of many symbols: predictions read an inverted index (`PmerIndex`) of the
support vectors, whose texts are compressed. Its arrays are mapped: replace the file by renaming another, as
`save` does; a changed file is noticed at the next prediction (`MappedFile`). All other models have format 2.

The header is the value "textsvm" of safetensors' metadata, and begins with "blake2b": the BLAKE2b hash (32
bytes, hexadecimal) of the whole file with zeros in place of the hash. So any changed bit is detected,
including safetensors' header and padding. The digest detects damage, not forgery: who can write the file can
write the digest.
"""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import date, datetime
from hashlib import blake2b
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np

from textsvm.arrays import AnyArray, Array, Arrays, Floats, Json
from textsvm.errors import InputError, one_line, os_errors
from textsvm.kernels import KERNELS
from textsvm.kernels.base import MOST_DEPTH, Kernel, is_number
from textsvm.kernels.contract import strip_prefix
from textsvm.kernels.encoder import attach_encoders, stored_encoders
from textsvm.kernels.spectrum.weight_vectors import MOST_TIMES, ROOM
from textsvm.kernels.spelling import spell
from textsvm.linalg.factored import as_dense, keep_sparse
from textsvm.model import rules
from textsvm.model.conformal import Conformity
from textsvm.model.settings import METHODS, SETTINGS, OnlineSettings
from textsvm.model.trained import Expansion, Record, TrainedModel, as_model, is_ours
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import scipy
from textsvm.runtime.files import MappedFile, replacing
from textsvm.runtime.plain_json import to_json, unambiguous_json
from textsvm.sources.base import INDEX, FirstPrediction, Source, Support, csr_of
from textsvm.sources.copies import MOST_DIGESTS
from textsvm.text.pieces import Pieces
from textsvm.version import __version__

FORMAT_VERSION, WITHOUT_TEXTS, MAPPED = 2, 3, 4
_FORMS = {"unicode": "unicode 2"}  #: Normal forms in files.
#: Tokens by their name in files; "words" were cut at combining marks before.
_TOKENS, _WORDS = {"words": "runs", "words 2": "words"}, ('"tokens": "words"', '"tokens": "words 2"')
_SHARED = ("normalise", "punctuation", "max_length", "tol", "duality_gap", "max_iter")
#: Saved parameters of each estimator.
_PARAMETERS = {
    "SVC": ("C", "multiclass", "class_weight", *_SHARED),
    "SVR": ("C", "epsilon", *_SHARED),
    "OneClassSVM": ("nu", *_SHARED),
    "MultilabelSVC": ("C", "thresholds", "random_state", *_SHARED),
    "OnlineSVC": ("C", "p", "tol", "max_texts", "max_bytes"),
}
_ONLINE = "OnlineSVC"
_SCORING = "scoring"  #: Saved only if it is not None.
_TEXTS = "training_digests"
_MAPS, _CONFORMITY = "calibration.", "conformity."
#: Names of arrays that are read before or after a prediction checks the mapped file.
_COPIED = re.compile(r"(intercept|thresholds|training_digests)$|calibration\.|conformity\.|(.*\.)?alphabet$")


def save(model: object, path: str | os.PathLike[str], info: Json | None = None, texts: bool = True) -> None:
    """Write a trained model.

    Parameters
    ----------
    model : TrainedModel, or fitted SVC, MultilabelSVC, SVR, OneClassSVM, CalibratedSVC or OnlineSVC
        Or a Pipeline of it alone. An OnlineSVC is saved with the p-mers of all its texts, so that it
        can go on learning.
    path : path
        Replaced only once the new file is complete.
    info : dict, optional
        JSON values to save with the model, such as its training data.
    texts : bool
        False saves a weight for each feature in place of support vectors and their texts; for spectrum
        kernels and sums of them. Decision values change by at most 1e-6. Training texts without any feature
        (shorter than p) are left out, with a warning: texts equal to them get the biases alone.

    Raises
    ------
    InputError
        If the file cannot be written, the kernel is a Python function, `texts` is False and the kernel has no
        weights, or a label or `info` cannot be saved.
    sklearn.exceptions.NotFittedError
        If `model` is not fitted.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, load, save
    >>> model = SVC(Spectrum(3)).fit(["win cash now", "lunch at noon"], ["spam", "ham"])
    >>> save(model, "spam.textsvm", info={"trained": "today"})
    >>> load("spam.textsvm").predict(["cash"]).tolist()
    ['spam']
    """
    model = _trained(model)
    if model.estimator_name == _ONLINE and not texts:
        raise InputError("an OnlineSVC goes on learning from its texts and is not saved without them")
    support = model.support
    if not texts:
        support = model.source.without_texts(support, model.predictor.dual_coef)
        if support.weights is not None and support.weights.left_out:
            warnings.warn(
                f"{support.weights.left_out:,} support vectors have no feature, being shorter than p, and "
                "are left out of a model without texts: texts equal to them get the biases alone",
                stacklevel=2,
            )
    header, arrays = _online_form(model) if model.estimator_name == _ONLINE else _machine_form(model, support)
    rule = model.rule
    if isinstance(rule, rules.CalibratedRule):
        header["calibration"] = {"method": rule.method, "reject": rule.reject}
        arrays.update({_MAPS + name: array for name, array in rule.maps.items()})
        arrays.update({_CONFORMITY + name: array for name, array in rule.conformity.state().items()})
    if model.pieces is not None:
        values = vars(model.pieces).items()
        header["pieces"] = {key: sorted(x) if isinstance(x, frozenset) else x for key, x in values}
    version = MAPPED if any(name.startswith(INDEX) for name in arrays) else FORMAT_VERSION
    header = {
        "format_version": version if support.weights is None else WITHOUT_TEXTS,
        "written_by": f"textsvm {__version__}", **header, "info": info or {},
    }  # fmt: skip
    parts = packed(header, arrays)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.writelines(parts)


def _trained(model: object) -> TrainedModel:
    """The trained model of an estimator or of the only step of a pipeline; InputError for other objects."""
    if is_ours(model):
        return as_model(model)
    steps = [(name, step) for name, step in getattr(model, "steps", []) if step not in (None, "passthrough")]
    if steps and is_ours(steps[-1][1]):
        if len(steps) == 1:
            return as_model(steps[0][1])
        raise InputError(
            f"the step {steps[0][0]!r} of the {type(model).__name__} has no form without code: save it all "
            "with joblib.dump(pipeline, path), for files of your own only, since loading them runs any code "
            "in them; or save the last step, save(pipeline[-1], path), and apply the others in your program"
        )
    raise InputError(
        f"save writes {', '.join(_PARAMETERS)} and CalibratedSVC, not {type(model).__name__}; joblib can "
        "keep it, but loading a file of joblib's runs any code in it"
    )


def load(path: str | os.PathLike[str]) -> TrainedModel:
    """Read a model that `save` wrote.

    Returns
    -------
    TrainedModel
        It predicts as the estimator did. ``model.info`` is the `info` of `save`; `textsvm.as_estimator` makes
        an estimator for scikit-learn's tools.

    Raises
    ------
    InputError
        If the file does not exist, is damaged, or was written by another program or a newer version.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, load, save
    >>> save(SVC(Spectrum(3)).fit(["win cash now", "lunch at noon"], ["spam", "ham"]), "spam.textsvm")
    >>> model = load("spam.textsvm")
    >>> model.kernel, model.classes.tolist()
    (Spectrum(p=3), ['ham', 'spam'])
    """
    return _build_checked(path, _read(Path(path)))


def describe(path: str | os.PathLike[str]) -> Json:
    """Contents of a model file, after the checks of `textsvm.load`; classes and calibration may be None.

    `texts` is whether it has training texts, `n_support` of each class.
    """
    header, arrays, digest, _ = content = _read(Path(path))
    kernel, scale = _build_checked(path, content).kernel, header.get("scale")
    return {
        "file": str(path),
        "bytes": Path(path).stat().st_size,
        "digest": digest,
        **{name: header.get(name) for name in ("format_version", "written_by", "estimator", "kernel")},
        "kernel_line": str(header["kernel"]) if kernel is None else spell(kernel),
        **{name: header.get(name) for name in ("parameters", "classes", "n_support")},
        "calibration": header.get("calibration", {"scale": scale} if scale is not None else None),
        "texts": any(name.endswith("offsets") and len(array) > 1 for name, array in arrays.items()),
        "arrays": [
            {"name": name, "dtype": str(array.dtype), "shape": list(array.shape), "bytes": array.nbytes}
            for name, array in sorted(arrays.items())
        ],
        "info": header["info"],
    }


def _build_checked(path: str | os.PathLike[str], content: Content) -> TrainedModel:
    """Build the model of a file; InputError with the path if the contents are invalid."""
    header, arrays, digest, file = content
    try:
        if not isinstance(header["info"], dict):
            raise InputError("its information is not an object")
        with file or nullcontext():
            header["folder"] = os.path.dirname(path)
            return _build(header, arrays).with_record(digest=digest, file=file)
    except InputError as error:
        missing = isinstance(error.__cause__, ImportError)
        problem = "needs more than is installed" if missing else "is not a usable model"
        raise InputError(f"{path} {problem}: {one_line(error)}") from error
    except KeyError as error:
        raise InputError(f"{path} is damaged: it has no {one_line(error)}; train it again") from error
    except MemoryError as error:
        raise InputError(f"{path} takes more main memory than there is: {one_line(error)}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is damaged: {one_line(error)}; train it again") from error


def first_prediction(model: TrainedModel, path: Path) -> FirstPrediction | None:
    """Predicted cost of the first prediction with the saved model; None if it is not known."""
    if not isinstance(model.reader, Source):
        return None
    with path.open("rb") as file:
        header = unambiguous_json(file.read(_end_of_head(file.read(8)) - 8))
    mapped = _header_of(path, header)["format_version"] == MAPPED
    machines, size = len(model.predictor.intercept), path.stat().st_size
    return model.reader.first_prediction(model.support, machines, size, mapped)


def _machine_form(model: TrainedModel, support: Support) -> tuple[Json, Arrays]:
    assert isinstance(model.reader, Source)
    kernel, state = model.reader.state(support, len(model.predictor.intercept))
    arrays = {"intercept": model.predictor.intercept, **state}
    if support.kernel is not None:
        arrays |= stored_encoders(support.kernel)
    if support.weights is None:
        arrays |= {"support": support.indices, **pack_coef(model.predictor.dual_coef)}
    rule, record = model.rule, model.record
    if record.texts is not None:
        arrays[_TEXTS] = record.texts
    name, settings = record.settings.estimator, record.settings.as_dict()
    parameters = {parameter: settings[parameter] for parameter in _PARAMETERS[name]}
    parameters["normalise"] = _FORMS.get(parameters["normalise"], parameters["normalise"])
    if record.C is not None and "C" in parameters:
        parameters["C"] = record.C  # of a kernel that was chosen
    if record.loss != "hinge":
        parameters["loss"] = record.loss
    if settings.get(_SCORING, "accuracy") != "accuracy":
        parameters[_SCORING] = settings[_SCORING]
    if isinstance(parameters.get("class_weight"), Mapping):
        parameters["class_weight"] = [[label_form(a), w] for a, w in parameters["class_weight"].items()]
    header = {
        "estimator": name,
        "kernel": json.loads(json.dumps(to_json(kernel)).replace(*_WORDS)),  # strings escape their quotes
        "parameters": parameters,
        "classes": None if rule.classes is None else [label_form(label) for label in rule.classes],
        "n_support": record.n_support.tolist(),
        "n_features_in": support.n_features,
        "chosen": record.chosen,
    }
    if isinstance(rule, rules.LabelRule):
        assert rule.thresholds is not None
        header["label_form"], arrays["thresholds"] = rule.form, rule.thresholds
    if isinstance(rule, rules.ClassRule) and rule.scale is not None:
        header["scale"] = rule.scale
    return header, arrays


def _online_form(model: TrainedModel) -> tuple[Json, Arrays]:
    from textsvm.model.online import OnlineExpansion

    assert isinstance(model.predictor, OnlineExpansion)
    assert model.kernel is not None
    state, arrays = model.predictor.texts.state()
    header = {
        "estimator": _ONLINE,
        "kernel": model.kernel.structure.as_dict(),
        "parameters": {name: model.record.settings.as_dict()[name] for name in _PARAMETERS[_ONLINE]},
        "classes": [label_form(label) for label in model.predictor.texts.classes],
        **state,
    }
    return header, arrays


def _build_online(header: Json, arrays: Arrays) -> TrainedModel:
    # Not imported above: it needs Numba.
    from textsvm.model.online import OnlineTexts, new_machines, online_model

    settings = OnlineSettings(**{name: header["parameters"][name] for name in _PARAMETERS[_ONLINE]})
    settings.check()
    if "calibration" in header:
        raise InputError("it calibrates an OnlineSVC")
    classes = read_classes(header["classes"])
    if (classes != np.unique(classes)).any():
        raise InputError("its classes are out of order")
    texts = OnlineTexts(classes, new_machines(len(classes), settings))
    texts.restore(as_count(header["n_seen"]), arrays)
    if texts.settle():
        warnings.warn("the machines of the model are not at their optimum", stacklevel=4)
    return online_model(texts, settings, header["info"])


def _read(path: Path) -> Content:
    content = read_content(path)
    version = content.header["format_version"]
    if type(version) is not int or version not in (FORMAT_VERSION, WITHOUT_TEXTS, MAPPED):
        raise InputError(
            f"{path} has model format {repr(version)[:40]}, and this is textsvm {__version__}, which reads "
            f"formats {FORMAT_VERSION} to {MAPPED}; train it again, or use the version that wrote it "
            f"({repr(content.header.get('written_by', 'unknown'))[:40]})"
        )
    return content


def _build(header: Json, arrays: Arrays) -> TrainedModel:
    if header["estimator"] == _ONLINE:
        return _build_online(header, arrays)
    model = _build_machine(header, arrays)
    if "pieces" in header:
        model = replace(model, pieces=Pieces.read(header["pieces"]))
    if "calibration" not in header:
        return model
    if not isinstance(model.rule, rules.ClassRule):
        raise InputError("it calibrates a model that is not a classifier")
    method, reject = (header["calibration"][name] for name in ("method", "reject"))
    if method not in METHODS:
        raise InputError(f"method={method!r} is not one of {', '.join(METHODS)}")
    rules.check_reject(reject, model.rule.classes)
    n_classes = len(model.rule.classes)
    rule = rules.CalibratedRule(
        model.rule.classes, model.rule.strategy, method=method,
        maps=rules.checked_maps(strip_prefix(_MAPS, arrays), n_classes),
        conformity=Conformity.restore(strip_prefix(_CONFORMITY, arrays), n_classes), reject=reject,
    )  # fmt: skip
    return replace(model, rule=rule)


def _build_machine(header: Json, arrays: Arrays) -> TrainedModel:
    name, parameters, kernel = _given(header)
    if isinstance(kernel, Kernel):
        attach_encoders(kernel, arrays, header["folder"])
    settings = SETTINGS[name](kernel=kernel, **parameters)
    settings.check()
    rule = _rule(name, header, arrays, parameters)
    source = settings.source
    support, dual_coef, intercept = _machines(header, arrays, source, rule.n_machines)
    if isinstance(rule, rules.LabelRule) and support.weights is None:
        n_support = (dual_coef != 0).sum(axis=1)
    else:
        n_support = np.array([as_count(count) for count in header["n_support"]], np.int64)
        counted = header["format_version"] == WITHOUT_TEXTS or n_support.sum() == dual_coef.shape[1]
        if len(n_support) != (1 if rule.classes is None else len(rule.classes)) or not counted:
            raise InputError("its numbers of support vectors do not fit its classes and support vectors")
    record = Record(
        settings, n_support, C=parameters["C"] if isinstance(rule, rules.ClassRule) else None,
        loss=parameters.get("loss") or "hinge", chosen=str(header.get("chosen", "")), texts=_digests(arrays),
        info=header["info"],
    )  # fmt: skip
    return TrainedModel(source, Expansion(support, dual_coef, intercept), rule, record)


def _digests(arrays: Arrays) -> AnyArray | None:
    """Digests of training texts, checked; None in a model of vectors."""
    if (digests := arrays.get(_TEXTS)) is None:
        return None
    if digests.ndim != 1 or digests.dtype != np.uint64 or len(digests) > MOST_DIGESTS:
        raise InputError(f"its digests of training texts are not a row of at most {MOST_DIGESTS:,} numbers")
    return digests


def _rule(name: str, header: Json, arrays: Arrays, parameters: Json) -> rules.Rule:
    if name == "SVC":
        scale = header.get("scale")
        most = rules.MAX_SCALE
        if scale is not None and not (is_number(scale) and 0 <= scale <= most):
            raise InputError(f"its scale of probabilities is {repr(scale)[:40]}, not from 0 to {most:g}")
        classes, strategy = read_classes(header["classes"]), parameters.get("multiclass", "ovr")
        return rules.ClassRule(classes, strategy, scale=scale)
    if name == "MultilabelSVC":
        classes, thresholds = read_classes(header["classes"]), finite(arrays, "thresholds")
        rule = rules.LabelRule(classes, thresholds, header["label_form"])
        rule.check()
        return rule
    return rules.NumberRule() if name == "SVR" else rules.NoveltyRule()


def _given(header: Json) -> tuple[str, Json, Any]:
    """Name and settings of the estimator, and its kernel or the name of the kernel."""
    name = header["estimator"]
    if name not in _PARAMETERS:
        raise InputError(f"its estimator {name!r} is not known to this version")
    values = header["parameters"]
    parameters = {parameter: values[parameter] for parameter in _PARAMETERS[name]}
    if values["normalise"] in _FORMS:
        raise InputError("its normal form is that of an earlier version; train it again")
    forms = {name: form for form, name in _FORMS.items()}
    parameters["normalise"] = forms.get(values["normalise"], values["normalise"])
    if _SCORING in values:
        parameters[_SCORING] = values[_SCORING]
    if name == "SVC":
        parameters["loss"] = values.get("loss")
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = {read_label(form): weight for form, weight in parameters["class_weight"]}
    kernel = read_kernel(header["kernel"]) if isinstance(header["kernel"], dict) else header["kernel"]
    return name, parameters, kernel


def _machines(header: Json, arrays: Arrays, source: Source, machines: int) -> tuple[Support, Floats, Floats]:
    texts = header["format_version"] != WITHOUT_TEXTS
    intercept, indices = finite(arrays, "intercept"), arrays["support"] if texts else np.empty(0, np.int64)
    if intercept.shape != (machines,):
        raise InputError(f"it has {intercept.size} biases and needs {machines}")
    if indices.ndim != 1 or indices.dtype != np.int64 or (len(indices) and indices[0] < 0):
        raise InputError("its support indices are not a row of 64-bit integers of at least 0")
    if (indices[1:] <= indices[:-1]).any():
        raise InputError("its support indices do not ascend")
    n_features = header.get("n_features_in")
    support = source.restore(None if n_features is None else as_count(n_features), indices, arrays)
    if texts != (support.weights is None) or (support.weights and support.weights.n_machines != machines):
        raise InputError("its weights do not fit its machines, or its format")
    dual_coef = read_coef(arrays, (machines, len(indices))) if texts else np.empty((machines, 0))
    return support, dual_coef, intercept


def read_classes(forms: object) -> AnyArray:
    """Classes from their JSON values; InputError if they are invalid."""
    if not isinstance(forms, list) or len(forms) < 2:
        raise InputError("it does not name two or more classes")
    classes = [read_label(form) for form in forms]
    if len(set(classes)) != len(classes):
        raise InputError("it names a class twice")
    for kinds in (str, bool, int | float, bytes, np.datetime64):
        if all(isinstance(c, kinds) for c in classes):
            return np.array(classes)
    if all(type(c) is type(classes[0]) and isinstance(c, date) for c in classes):
        return np.array(classes, object)
    raise InputError("its classes are not all text, numbers, bytes or dates")


def label_form(label: object) -> Any:
    """JSON value of a label: text, numbers and bools themselves, others with their type."""
    if isinstance(label, bytes):
        return {"bytes": label.decode("latin-1")}
    if isinstance(label, np.datetime64):
        unit, step = np.datetime_data(label)
        return {"datetime64": [int(label.astype(np.int64)), f"{step}{unit}"]}
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, datetime):
        return {"datetime": label.isoformat()}
    if isinstance(label, date):
        return {"date": label.isoformat()}
    if isinstance(label, str | int | float):
        return label
    raise InputError(
        f"a label is {label!r}, of type {type(label).__name__}, and a file holds text, numbers, bytes and "
        "dates; train with labels of these"
    )


def read_label(form: object) -> Any:
    """Inverse of `label_form`."""
    if not isinstance(form, dict):
        return form
    [(kind, value)] = form.items()
    if kind == "bytes":
        return str(value).encode("latin-1")
    if kind == "datetime64":
        count, unit = value
        return np.datetime64(count, unit)
    if kind in ("datetime", "date"):
        return {"datetime": datetime, "date": date}[kind].fromisoformat(value)
    raise InputError(f"it has a label of the unknown kind {kind!r}")


def pack_coef(coef: Array) -> Arrays:
    """Arrays of the coefficients: dense, or CSR if it takes fewer bytes."""
    packed = scipy.sparse.csr_array(coef)
    if 12 * packed.nnz + 8 * len(packed.indptr) >= 8 * coef.shape[0] * coef.shape[1]:
        return {"dual_coef": as_dense(coef)}
    return {
        "dual_coef.data": packed.data,
        "dual_coef.columns": packed.indices.astype(np.int32),
        "dual_coef.starts": packed.indptr.astype(np.int64),
    }


def read_coef(arrays: Arrays, shape: tuple[int, int]) -> Array:
    """Inverse of `pack_coef`, with checks."""
    if "dual_coef" in arrays:
        coef = finite(arrays, "dual_coef")
        if coef.shape != shape:
            raise InputError("its coefficients do not fit its support vectors")
        return coef
    data = finite(arrays, "dual_coef.data")
    columns, starts = arrays["dual_coef.columns"], arrays["dual_coef.starts"]
    packed = csr_of(data, columns, starts, shape, "coefficients")
    if keep_sparse(shape, len(data)):
        return packed
    require_room("coefficients", 8 * shape[0] * shape[1], data.nbytes + columns.nbytes + starts.nbytes)
    return packed.toarray()


def require_room(name: str, need: int, held: int) -> None:
    """Raise InputError if values need more memory than is free, or far more than `held` bytes of the file."""
    free = devices.free_memory(devices.select("cpu"))
    if need > free:
        raise InputError(f"its {name} take {need:,} bytes of memory and {free:,} are free")
    if need > max(ROOM, MOST_TIMES * held):
        raise InputError(f"its {name} would take {need:,} bytes of memory and {held:,} in the file")


def finite(arrays: Arrays, name: str) -> Floats:
    """An array of finite float64 values; InputError for any other array."""
    array = arrays[name]
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise InputError(f"its {name} has values that are not finite 64-bit numbers")
    return array


def as_count(value: object) -> int:
    """Check a count in the header."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise InputError(f"it has {value!r} where a count is expected")
    return value


def read_kernel(header: Json, level: int = 0) -> Kernel:
    """Build a kernel and its parts from JSON values; the outermost call checks them all."""
    if level > MOST_DEPTH:
        raise InputError(f"its kernels are nested more than {MOST_DEPTH} deep")
    parameters = dict(header)
    name = parameters.pop("name")
    if "tokens" in parameters:
        parameters["tokens"] = _TOKENS.get(parameters["tokens"], parameters["tokens"])
    if name not in KERNELS:
        raise InputError(f"its kernel {name!r} is not known to this version")

    def parameter(value: object) -> Any:
        if isinstance(value, dict):
            return read_kernel(value, level + 1)
        if not isinstance(value, list):
            return value
        return tuple(parameter(part) if isinstance(part, dict) else part for part in value)

    kernel = KERNELS[name](**{k: parameter(v) for k, v in parameters.items()})
    kernel.check()
    return kernel


# The bytes of a file
DIGEST = "blake2b"
_UNKNOWN = "0" * 64
_MARK = rb"{\"blake2b\": \""  #: Start of the header in the file: a JSON string in a JSON string.
#: Most bytes of the header, as in safetensors, and bytes that are hashed at a time.
_MOST_HEADER, _CHUNK = 100_000_000, 1 << 20
#: Types of arrays in safetensors.
_ORDER = ["U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8", "BOOL"]  #: In a file
_TYPES = {"BOOL": "?"} | {f"{kind.upper()}{8 * n}": f"<{kind}{n}" for kind in "iuf" for n in (1, 2, 4, 8)}

_Places: TypeAlias = dict[str, tuple[str, tuple[int, ...], int]]


class Content(NamedTuple):
    """Contents of a model file."""

    header: Json
    arrays: Arrays
    digest: str  #: Checked
    file: MappedFile | None  #: That has the arrays, if they are mapped


def packed(header: Mapping[str, object], arrays: Mapping[str, AnyArray]) -> list[Any]:
    """The bytes of a model file in parts, as safetensors orders them; its `save` would copy arrays twice."""
    numbers = {np.dtype(_TYPES[name]): number for number, name in enumerate(_ORDER)}
    ordered = sorted((numbers[array.dtype], name) for name, array in arrays.items())
    outer: Json = {"__metadata__": {"textsvm": _as_json({DIGEST: _UNKNOWN, **header})}}
    data, end = list[AnyArray](), 0
    for number, name in ordered:
        data.append(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8))
        begin, end = end, end + len(data[-1])
        outer[name] = {"dtype": _ORDER[number], "shape": arrays[name].shape, "data_offsets": [begin, end]}
    text = json.dumps(outer, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [sealed(len(text).to_bytes(8, "little") + text, data), *data]


def sealed(head: bytes, data: Sequence[Any] = ()) -> bytes:
    """The head of a model file, or all of it, with a correct digest; unchanged if it has no digest."""
    digest, start = _digest_of(head, data)
    return head[:start] + digest.encode() + head[start + len(digest) :]


def read_content(path: Path) -> Content:
    """Read a model file and check its digest."""
    with os_errors(f"cannot read {path}"), _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(8)
        head += file.read(min(_end_of_head(head), _MOST_HEADER) - 8)
        try:
            outer = unambiguous_json(head[8:])
            places = _places(outer, size - len(head))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError) as error:
            why = _reason(head, size, error)
            raise InputError(f"{path} is not a textsvm model, or is damaged: {why}") from error
        mapped = (header := _header_of(path, outer))["format_version"] == MAPPED
        need = 0 if mapped else 2 * size  # of the bytes and the arrays
        if need > devices.SMALL and need > (free := devices.free_memory(devices.select("cpu"))):
            raise InputError(f"{path} takes {need:,} bytes of memory to read, and {free:,} are free")
        try:
            whole = MappedFile(path, file) if mapped else None
            (digest, start), arrays = _digest_and_arrays(file, head, places, mapped)
        except MemoryError as error:
            raise InputError(f"{path} takes more main memory than there is: {one_line(error)}") from error
    in_place = start > 0 and head[start : start + len(digest)] == digest.encode()
    if not in_place or header.pop(DIGEST, None) != digest:
        raise InputError(
            f"{path} is damaged: its content does not match its digest; train it again, or take a copy of it"
        )
    return Content(header, arrays, digest, whole)


def _end_of_head(content: bytes) -> int:
    """Number of bytes before the data: the length of the JSON object, and the object."""
    return 8 + int.from_bytes(content[:8], "little")


def _places(outer: Json, size: int) -> _Places:
    """Type, shape and offset of each array of safetensors in `size` bytes of data; ValueError if damaged."""
    places, end = {}, 0
    entries = {name: entry for name, entry in outer.items() if name != "__metadata__"}
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape = _TYPES[entry["dtype"]], tuple(map(as_count, entry["shape"]))
        places[name] = dtype, shape, end
        begin, end = end, end + np.dtype(dtype).itemsize * math.prod(shape)
        if entry["data_offsets"] != [begin, end]:
            raise ValueError(f"the bytes of {name} do not fit its shape")
    if end != size:
        raise ValueError(f"its arrays have {end:,} bytes, not {size:,}")
    return places


def _digest_and_arrays(
    file: IO[bytes], head: bytes, places: _Places, mapped: bool
) -> tuple[tuple[str, int], Arrays]:
    """Result of `_digest_of` and the arrays of a file, mapped or read, given its position after the head."""
    if mapped:  # hashed as a file, so that its pages do not count as memory of the process
        digest = _digest_of(head, iter(lambda: file.read(_CHUNK), b""))
        data: Array = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))[len(head) :]
    else:
        data = file.read()
        digest = _digest_of(head, [data])
    arrays = {
        name: np.frombuffer(data, dtype, math.prod(shape), at).reshape(shape)
        for name, (dtype, shape, at) in places.items()
    }
    return digest, {
        name: array if mapped and not _COPIED.match(name) else array.copy() for name, array in arrays.items()
    }


def _reason(head: bytes, size: int, error: Exception) -> str:
    """Why a file has no arrays of safetensors."""
    if not size:
        return "it is empty"
    if head[:1] == b"\x80":  # loading a pickle would run its code
        return "it looks like a pickle; keep the model with textsvm.save"
    if _end_of_head(head) > size:
        return "it has no header; the model comes before the documents, as in `textsvm predict MODEL FILE`"
    return one_line(error)


def _opened(path: Path) -> IO[bytes]:
    if os.path.isdir(path):
        raise InputError(f"the model {path} is a folder; name a file that `textsvm train` wrote")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"the model {path} is neither a file nor a folder; write it to a file first")
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"the model {path} is not there; `textsvm train -o {path}` writes one") from None


def _header_of(path: Path, outer: Json) -> Json:
    with suppress(KeyError, TypeError, ValueError, RecursionError, MemoryError):
        header: Json = unambiguous_json(outer["__metadata__"]["textsvm"])
        if isinstance(header, dict) and "format_version" in header:
            return header
    raise InputError(f"{path} was not written by textsvm (it has no textsvm header)")


def _digest_of(head: bytes, data: Iterable[Any]) -> tuple[str, int]:
    """Digest of a file and its position in the head; ("", 0) if the file has no place for it."""
    start = head.find(_MARK)
    if start < 0:
        return "", 0
    start += len(_MARK)
    hashed = blake2b(digest_size=len(_UNKNOWN) // 2)
    hashed.update(head[:start] + _UNKNOWN.encode() + head[start + len(_UNKNOWN) :])
    for part in data:
        hashed.update(part)
    return hashed.hexdigest(), start


def _as_json(header: Mapping[str, object]) -> str:
    def plain(value: object) -> Any:
        if isinstance(value, np.ndarray | np.generic | bytes | date):
            return to_json(value)
        raise TypeError(f"{type(value).__name__} is not a JSON value")

    try:
        return json.dumps(header, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"`info` or a parameter cannot be saved as JSON: {one_line(error)}") from error
