"""Every parameter of every estimator, kernel and function does something: two values give different results.

A parameter without a row fails. `ELSEWHERE` has those of devices, memory, time and progress, whose effect is
no result, with the test file of their effect.
"""

import inspect
import json

import numpy as np
import pytest
from test_laws_training import imbalanced

import textsvm

pytestmark = pytest.mark.filterwarnings("ignore")
KERNEL = textsvm.Spectrum((1, 3))
TEXTS, Y = imbalanced(seed=1)
LABELS = np.array(["a", "b", "c"])[Y]
MIXED = [text.upper() if i % 3 else text.replace(" ", ", ") for i, text in enumerate(TEXTS)]
NUMBERS = Y + np.random.default_rng(0).normal(size=90)
VECTORS = np.random.default_rng(0).normal(size=(90, 3)) + Y[:, None]
DNA = ["".join(np.random.default_rng(i).choice(list("acgt"), 40)) for i in range(90)]
CPU = {"device": "cpu"}


def decided(model, X=MIXED, y=LABELS):
    """Decision values on the training texts."""
    fitted = model.fit(X) if isinstance(model, textsvm.OneClassSVM) else model.fit(X, y)
    return np.asarray(getattr(fitted, "decision_function", fitted.predict)(X), float)


def svc(**parameters):
    worse = "scoring" in parameters  # of texts whose classes are told worse
    common = {"kernel": textsvm.Spectrum(3) if worse else KERNEL, "C": 0.3}
    return decided(textsvm.SVC(**{**common, **CPU, **parameters}), TEXTS if worse else MIXED)


def svr(**parameters):
    return decided(textsvm.SVR(**{"kernel": KERNEL, **CPU, **parameters}), MIXED, NUMBERS)


def labels(**parameters):
    model = textsvm.MultilabelSVC(**{"kernel": KERNEL, **CPU, **parameters})
    fitted = model.fit(MIXED, [[label, "x"] if i % 3 else [label] for i, label in enumerate(LABELS)])
    return np.append(fitted.decision_function(MIXED), fitted.thresholds_)


def one_class(**parameters):
    return decided(textsvm.OneClassSVM(**{"kernel": KERNEL, **CPU, **parameters}))


def calibrated(**parameters):
    parameters = {"estimator": textsvm.SVC(KERNEL, C=0.3, **CPU), "cv": 3} | parameters
    fitted = textsvm.CalibratedSVC(**parameters).fit(TEXTS, LABELS)
    return [fitted.predict_proba(TEXTS).tolist(), [str(label) for label in fitted.predict(TEXTS)]]


def online(**parameters):
    return decided(textsvm.OnlineSVC(**parameters), TEXTS * 3, [*LABELS] * 3)


def features(**parameters):
    return textsvm.SpectrumFeatures(**{"p": 2, **CPU, **parameters}).fit_transform(MIXED).toarray()


def gram(kernel, X=MIXED[:12], y=LABELS):
    """The kernel matrix of some examples; labels for odds."""
    return textsvm.SVC(kernel, **CPU).fit(X, y[: len(X)]).decision_function(X)


def kernel_of(kind, X=MIXED[:12], **common):
    return lambda **parameters: gram(kind(**{**common, **parameters}), X)


def validated(**parameters):
    found = textsvm.cross_validate(
        **{"model": textsvm.SVC(KERNEL, C=0.3, **CPU), "X": TEXTS, "y": LABELS, "cv": 3, **parameters}
    )
    return json.dumps([found.table, found.predictions.tolist()], default=str)


def tuned(**parameters):
    common = {"model": textsvm.SVC(KERNEL, **CPU), "X": TEXTS, "y": LABELS, "grid": {"C": [0.01, 1]}, "cv": 3}
    found = textsvm.tune(**common | parameters)
    table = [{name: value for name, value in row.items() if name != "seconds"} for row in found.table]
    return json.dumps([table, str(found.nested), found.metric], default=str)


def doubted(**parameters):
    found = textsvm.doubts(
        **{"model": textsvm.SVC(KERNEL, **CPU), "texts": TEXTS, "labels": LABELS, "cv": 3, **parameters}
    )
    return str(vars(found))


def explained(**parameters):
    common = {"model": textsvm.SVC(KERNEL, **CPU).fit(TEXTS, LABELS == "a"), "texts": TEXTS[:2]}
    return str(list(textsvm.explain(**common | parameters)))


def evaluated(**parameters):
    truth = ["1", "2"] * 10
    predicted = ["1"] * 10 + ["2"] * 10
    common = {
        "truth": truth,
        "predicted": predicted,
        "decision": np.linspace(-1, 1, 20),
        "classes": ["1", "2"],
    }
    return str(textsvm.evaluate(**common | parameters).metrics)


FOLDS = [(np.arange(0, 60), np.arange(60, 90)), (np.arange(30, 90), np.arange(30))]
GROUPS = np.arange(90) // 6
MACHINE = {
    "normalise": ("paper", "none"),
    "punctuation": (True, False),
    "max_length": (10, 40),
    "tol": (0.5, 1e-5),
}
ON_FOLDS = {
    "model": (textsvm.SVC(textsvm.Spectrum(2), **CPU), textsvm.SVC(textsvm.Spectrum(4), **CPU)),
    "X": (TEXTS, MIXED),
    "y": (LABELS, LABELS[::-1]),
    "cv": (3, FOLDS),
    "repeats": (1, 2),
    "groups": (None, GROUPS),
    "sample_weight": (None, 1.0 + Y),
    "group_duplicates": (None, 0.9),
    "random_state": (0, 1),
}
TEXT = {"normalised": (True, False), "tokens": ("characters", "words"), "keep_case": (True, False)}
#: Kind -> how it is called, and two values of each parameter.
ROWS = {
    "SVC": (
        svc,
        MACHINE
        | {
            "kernel": (textsvm.Spectrum(2), textsvm.Spectrum(4)),
            "C": (0.01, 1.0),
            "multiclass": ("ovr", "ovo"),
            "class_weight": (None, "balanced"),
            "loss": ("hinge", "squared_hinge"),
            "scoring": ("accuracy", "f1_macro"),
            "max_iter": (1, 10**6),
        },
    ),
    "SVR": (
        svr,
        MACHINE
        | {
            "kernel": (textsvm.Spectrum(2), textsvm.Spectrum(4)),
            "C": (0.01, 1.0),
            "epsilon": (0.01, 1.0),
            "max_iter": (1, 10**6),
        },
    ),
    "MultilabelSVC": (
        labels,
        MACHINE
        | {
            "kernel": (textsvm.Spectrum(2), textsvm.Spectrum(4)),
            "C": (0.01, 1.0),
            "thresholds": ("cv", "zero"),
            "cv": (2, 4),
            "random_state": (0, 1),
            "max_iter": (1, 10**6),
        },
    ),
    "OneClassSVM": (
        one_class,
        MACHINE
        | {"kernel": (textsvm.Spectrum(2), textsvm.Spectrum(4)), "nu": (0.1, 0.8), "max_iter": (1, 10**6)},
    ),
    "CalibratedSVC": (
        calibrated,
        {
            "estimator": (textsvm.SVC(KERNEL, C=0.1, **CPU), textsvm.SVC(KERNEL, C=1, **CPU)),
            "method": ("sigmoid", "isotonic"),
            "cv": (2, 4),
            "reject": (None, 0.9),
            "random_state": (0, 1),
        },
    ),
    "OnlineSVC": (online, {"C": (0.01, 1.0), "p": (2, 4), "tol": (0.5, 1e-4)}),
    "SpectrumFeatures": (
        features,
        TEXT
        | {
            "p": (2, 3),
            "weight": ("count", "log"),
            "idf": (False, True),
            "min_df": (1, 5),
            "normalise": ("paper", "none"),
            "punctuation": (True, False),
            "max_length": (5, 40),
        },
    ),
    "Spectrum": (
        kernel_of(textsvm.Spectrum, p=(1, 3)),
        TEXT
        | {
            "p": (2, 4),
            "weight": ("count", "log"),
            "idf": (False, True),
            "odds": (False, True),
            "shared": (False, True),
        },
    ),
    "BoundedGap": (
        kernel_of(textsvm.BoundedGap, p=2),
        TEXT | {"p": (2, 3), "decay": (0.2, 0.8), "span": (3, 5)},
    ),
    "GapWeighted": (
        kernel_of(textsvm.GapWeighted, p=2),
        TEXT | {"p": (2, 3), "decay": (0.2, 0.8), "weights": (None, [1.0, 5.0])},
    ),
    "EditDistance": (
        kernel_of(textsvm.EditDistance),
        {
            "gamma": (0.1, 2.0),
            "relative": (True, False),
            "tokens": ("characters", "words"),
            "keep_case": (True, False),
        },
    ),
    "GappedKmers": (
        kernel_of(textsvm.GappedKmers, g=4, m=1),
        TEXT | {"g": (4, 5), "m": (1, 2), "weight": ("count", "log")},
    ),
    "Mismatch": (
        kernel_of(textsvm.Mismatch, DNA[:12], k=4, m=1),
        {"k": (3, 5), "m": (1, 2), "canonical": (False, True), "normalised": (True, False)},
    ),
    "Gkm": (
        kernel_of(textsvm.Gkm, DNA[:12], l=6, k=4),
        {"l": (6, 7), "k": (3, 4), "d": (1, 2), "canonical": (False, True), "normalised": (True, False)},
    ),
    "Gaussian": (kernel_of(textsvm.Gaussian, VECTORS[:12]), {"gamma": (0.1, 3.0)}),
    "Polynomial": (
        kernel_of(textsvm.Polynomial, VECTORS[:12]),
        {"degree": (2, 3), "gamma": (0.1, 1.0), "coef0": (0.0, 2.0)},
    ),
    "Sigmoid": (kernel_of(textsvm.Sigmoid, VECTORS[:12] / 9), {"gamma": (0.1, 0.4), "coef0": (0.0, 0.3)}),
    "cross_validate": (validated, {**ON_FOLDS, "metrics": (None, ["accuracy"])}),
    "tune": (
        tuned,
        {
            **ON_FOLDS,
            "grid": ({"C": [0.01]}, {"C": [1]}),
            "metric": ("accuracy", "macro_f1"),
            "nested": (None, 2),
        },
    ),
    "doubts": (
        doubted,
        {
            "model": (textsvm.SVC(textsvm.Spectrum(2), **CPU), textsvm.SVC(textsvm.Spectrum(4), **CPU)),
            "texts": (TEXTS, MIXED),
            "labels": (LABELS, LABELS[::-1]),
            "cv": (2, 3),
            "groups": (None, GROUPS),
            "random_state": (0, 1),
        },
    ),
    "explain": (
        explained,
        {
            "texts": (TEXTS[:2], TEXTS[2:4]),
            "positive": (True, False),
            "substrings": (2, 5),
            "similar": (1, 3),
        },
    ),
    "evaluate": (
        evaluated,
        {
            "truth": (["1", "2"] * 10, ["2", "1"] * 10),
            "predicted": (["1"] * 20, ["2"] * 20),
            "decision": (np.linspace(-1, 1, 20), np.linspace(1, -1, 20)),
            "positive": ("1", "2"),
            "probability": (None, np.linspace([0, 1], [1, 0], 20)),
        },
    ),
}
#: Parameters of devices, memory, time, progress, files and errors, and the test files of their effect.
ELSEWHERE = {
    "": {
        "device": "device",
        "n_jobs": "threads",
        "compute": "training",
        "progress": "seconds",
        "encoder": "encoders",
        "duality_gap": "smo",
        "time_budget": "choice",
        "minutes": "tuning",
        "resume": "tuning",
    },
    "OnlineSVC": {"max_texts": "online_svc", "max_bytes": "online_svc"},
    "GappedKmers": {"canonical": "gapped"},
    "Mismatch": dict.fromkeys(("alphabet", "tokens", "keep_case"), "mers"),
    "Gkm": dict.fromkeys(("filter", "alphabet", "tokens", "keep_case"), "mers"),
    "cross_validate": {"positive": "metrics"},
    "tune": {"positive": "metrics"},
    "explain": {"model": "explanation"},
    "evaluate": {"classes": "metrics", "grades": "metrics"},
    "verify": dict.fromkeys(
        ("texts", "labels", "disputed", "groups", "rounds", "random_state"), "verification"
    ),
    "Encoder": {"encoder": "encoders", "bits": "encoders", "digest": "encoders"},
    "On": {"column": "on", "kernel": "on", "ranks": "on"},
    "Pieces": {"length": "pieces", "first": "pieces", "last": "pieces"},
    "Sum": {"kernels": "combined", "weights": "combined"},
    "Product": {"kernels": "combined"},
    "UserKernel": {"function": "user_kernel"},
    "class_map": {"kernel_matrix": "class_map", "labels": "class_map"},
    "export": dict.fromkeys(("model", "path", "to", "force", "title"), "export_files"),
    "load": {"path": "model_file"},
    "save": dict.fromkeys(("model", "path", "info", "texts"), "model_file"),
    "as_estimator": {"model": "trained"},
    "on_workers": {"where": "workers"},
    "read_corpus": dict.fromkeys(("path", "format", "part", "max_bytes", "options"), "readers_read"),
    "stream_corpus": dict.fromkeys(("path", "format", "part", "options"), "readers_stream"),
    "report": dict.fromkeys(("model", "X", "y", "positive", "ids", "title", "mistakes"), "report"),
}
#: What users do not call with parameters of their own.
NOT_CALLED = {"Corpus", "Compute", "InputError", "TrainedModel", "__version__"}
CASES = [(name, parameter) for name, (_, rows) in ROWS.items() for parameter in rows]


def test_every_parameter_has_a_row():
    missing = []
    for name in set(textsvm.__all__) - NOT_CALLED:
        for parameter in inspect.signature(getattr(textsvm, name)).parameters:
            elsewhere = {**ELSEWHERE[""], **ELSEWHERE.get(name, {})}
            if (name, parameter) not in CASES and parameter not in elsewhere:
                missing.append((name, parameter))
    assert missing == []
    for name, parameter in CASES:
        assert parameter in inspect.signature(getattr(textsvm, name)).parameters


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_every_parameter_does_something(name, parameter):
    call, rows = ROWS[name]
    first, second = (call(**{parameter: value}) for value in rows[parameter])
    same = np.array_equal(first, second) if isinstance(first, np.ndarray) else first == second
    assert not same
