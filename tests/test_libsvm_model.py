"""Models of LIBSVM's: those that are read decide as LIBSVM does, those that are written are its own.

The judges are scikit-learn, which has LIBSVM inside, and `Oracle`, which decides from a model file by the
formula of LIBSVM's svm_predict_values.
"""

import os
import re
import shutil
import subprocess
from itertools import combinations

import numpy as np
import pytest
from loading import load, load_libsvm_model
from scipy.sparse import csr_array
from sklearn import svm

import textsvm
from textsvm import SVC, SVR, InputError, OneClassSVM, save_libsvm_model, write_libsvm
from textsvm.kernels import Gaussian, Linear, Polynomial, Sigmoid, Spectrum
from textsvm.model.libsvm import fit_columns

KERNELS = {
    "linear": (Linear(), {}),
    "polynomial": (Polynomial(2, 0.3, 1.0), {"degree": 2, "gamma": 0.3, "coef0": 1.0}),
    "rbf": (Gaussian(0.2), {"gamma": 0.2}),
    "sigmoid": (Sigmoid(0.05, -0.5), {"gamma": 0.05, "coef0": -0.5}),
}
#: Of svm-train 3.24, `-c 100 -g 0.5 -b 1`, from four examples of three classes.
BY_LIBSVM = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 4
rho 0 0.07610545635857463 0
label 1 -1 3
probA 0.69314717840248341 1.453542049646273 0.65589943832631092
probB 2.3918953807395669e-16 1.4271587754409203 0.93968997570445412
nr_sv 1 1 2
SV
2.7841523910926194 2.1694035840697223 1:1 2:0.5 
-2.7841523910926194 2.4662163433495774 1:0.2 
-1.9566494975815403 -2.4662163433495774 2:1 
-0.21275408648818195 -0 1:0.1 2:2 
"""  # noqa: W291 (svm-train ends lines so)


class Oracle:
    """A model file, read by LIBSVM's own rules and nothing else."""

    def __init__(self, text):
        head, _, tail = text.partition("SV\n")
        self.head = dict(line.split(" ", 1) for line in head.splitlines())
        self.rho = [float(value) for value in self.head["rho"].split()]
        self.sizes = [int(value) for value in self.head.get("nr_sv", self.head["total_sv"]).split()]
        k = len(self.sizes)
        lines = [line.split() for line in tail.splitlines()]
        n_coef = max(1, k - 1)
        self.coef = np.array([[float(value) for value in line[:n_coef]] for line in lines]).T
        self.pairs = [dict(pair.split(":") for pair in line[n_coef:]) for line in lines]

    def values(self, X):
        """sum c K(x_s, x) - rho of each machine, shape (n, n_machines)."""
        S = np.zeros((len(self.pairs), X.shape[1]))
        for row, pairs in zip(S, self.pairs, strict=True):
            for index, value in pairs.items():
                row[int(index) - 1] = float(value)
        K = self.kernel(X @ S.T, (X**2).sum(1)[:, None], (S**2).sum(1))
        if len(self.sizes) == 1:
            return (K @ self.coef[0] - self.rho[0])[:, None]
        at = np.cumsum([0, *self.sizes])
        found = []
        for p, (i, j) in enumerate(combinations(range(len(self.sizes)), 2)):
            of_i, of_j = slice(at[i], at[i + 1]), slice(at[j], at[j + 1])
            found.append(K[:, of_i] @ self.coef[j - 1, of_i] + K[:, of_j] @ self.coef[i, of_j] - self.rho[p])
        return np.array(found).T

    def kernel(self, products, rows, columns):
        gamma, coef0 = (float(self.head.get(name, 0)) for name in ("gamma", "coef0"))
        match self.head["kernel_type"]:
            case "linear":
                return products
            case "polynomial":
                return (gamma * products + coef0) ** int(self.head["degree"])
            case "rbf":
                return np.exp(-gamma * (rows + columns - 2 * products))
            case "sigmoid":
                return np.tanh(gamma * products + coef0)

    def predict(self, X):
        """Class of most votes, and whether another one has as many."""
        labels, values = [int(label) for label in self.head["label"].split()], self.values(X)
        votes = np.zeros((len(X), len(labels)))
        for p, (i, j) in enumerate(combinations(range(len(labels)), 2)):
            votes[:, i] += values[:, p] > 0
            votes[:, j] += values[:, p] <= 0
        tied = (votes == votes.max(1, keepdims=True)).sum(1) > 1
        return np.array(labels)[votes.argmax(1)], tied


def data(n_classes=3, n=90, d=5):
    rng = np.random.default_rng(n_classes)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(n_classes, d))[y]
    X[np.abs(X) < 0.3] = 0
    return X, y


def text_of(judge, kind, kernel, parameters, labels=None):
    """The model file of an estimator of scikit-learn's; `labels` in place of classes."""
    lines = [f"svm_type {kind}", f"kernel_type {kernel}"]
    lines += [f"{name} {value!r}" for name, value in parameters.items()]
    lines += [f"nr_class {2 if labels is None else len(labels)}", f"total_sv {len(judge.support_)}"]
    lines.append("rho " + " ".join(repr(float(-value)) for value in judge._intercept_))
    if labels is not None:
        lines += ["label " + " ".join(map(str, labels)), "nr_sv " + " ".join(map(str, judge.n_support_))]
    lines.append("SV")
    for coef, row in zip(judge._dual_coef_.T.tolist(), judge.support_vectors_, strict=True):
        pairs = [f"{i + 1}:{value!r}" for i, value in enumerate(row.tolist()) if value]
        lines.append(" ".join([*map(repr, coef), *pairs]))
    return "\n".join(lines) + "\n"


def judge_of(make, kernel, **others):
    name = {"polynomial": "poly"}.get(kernel, kernel)
    return make(kernel=name, **KERNELS[kernel][1], **others)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("labels", [(7, -3), (-3, 7), (5, -2, 9), (9, 0, -2, 4)])
@pytest.mark.parametrize("kind", ["c_svc", "nu_svc"])
def test_a_classifier_that_is_read_decides_as_libsvm(kind, labels, kernel, tmp_path):
    X, codes = data(len(labels))
    judge = judge_of(svm.SVC if kind == "c_svc" else svm.NuSVC, kernel, tol=1e-6)
    if kind == "nu_svc":
        judge.set_params(nu=0.5)
    judge.fit(X, codes)
    path = tmp_path / "x.model"
    path.write_text(text := text_of(judge, kind, kernel, KERNELS[kernel][1], labels))
    model, oracle = load(path), Oracle(text)
    assert model.classes_.tolist() == sorted(labels)
    assert model.model_.info["libsvm"]["svm_type"] == kind
    assert model.n_features_in_ == 5
    expected = oracle.values(X)
    K = model.kernel_.rows(model.support_documents_, model.device_)
    ours = K.cross(model.settings.source.validate(X)).astype(float) @ model.dual_coef_.T + model.intercept_
    machines = list(combinations(sorted(labels), 2))
    scale = 1e-6 * (1 + np.abs(model.dual_coef_).sum())
    for p, (i, j) in enumerate(combinations(labels, 2)):
        value = ours[:, machines.index(tuple(sorted((i, j))))]
        np.testing.assert_allclose(value if i > j else -value, expected[:, p], atol=scale)
    if len(labels) == 2:
        np.testing.assert_allclose(model.decision_function(X), ours[:, 0], atol=scale)
    predicted, tied = oracle.predict(X)
    near = (np.abs(expected) < scale).any(1)
    same = ~tied & ~near
    assert same.any()
    assert (model.predict(X) == predicted)[same].all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["epsilon_svr", "nu_svr", "one_class"])
def test_other_machines_that_are_read_decide_as_libsvm(kind, kernel, tmp_path):
    X, _ = data()
    make = {"epsilon_svr": svm.SVR, "nu_svr": svm.NuSVR, "one_class": svm.OneClassSVM}[kind]
    judge = judge_of(make, kernel).fit(X, X[:, 0] - X[:, 1])
    path = tmp_path / "x.model"
    path.write_text(text_of(judge, kind, kernel, KERNELS[kernel][1]))
    model = load_libsvm_model(path)
    assert type(model) is (OneClassSVM if kind == "one_class" else SVR)
    expected = judge.decision_function(X) if kind == "one_class" else judge.predict(X)
    ours = model.decision_function(X) if kind == "one_class" else model.predict(X)
    np.testing.assert_allclose(ours, expected, atol=1e-5 * (1 + np.abs(judge.dual_coef_).sum()))
    if kind == "one_class":
        sure = np.abs(expected) > 1e-4
        assert (model.predict(X) == judge.predict(X))[sure].all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_a_classifier_that_is_written_is_libsvms(n_classes, kernel, tmp_path):
    X, codes = data(n_classes)
    classes = np.array(["10", "-1", "3", "2"])[codes]
    model = SVC(KERNELS[kernel][0], multiclass="ovo", device="cpu").fit(X, classes)
    save_libsvm_model(model, tmp_path / "x.model")
    oracle = Oracle((tmp_path / "x.model").read_text())
    assert sum(oracle.sizes) == len(model.support_)
    labels, tied = oracle.predict(X)
    near = (np.abs(oracle.values(X)) < 1e-4).any(1)
    same = ~tied & ~near
    assert (labels.astype(str) == model.predict(X))[same].all()
    again = load(tmp_path / "x.model")
    assert again.classes_.tolist() == sorted(int(label) for label in model.classes_)
    numbers = model.predict(X).astype(int)
    assert (again.predict(X) == numbers)[same].all()
    if n_classes == 2:
        np.testing.assert_allclose(model.decision_function(X), oracle.values(X)[:, 0], atol=1e-4)


@pytest.mark.parametrize("make", [SVR, OneClassSVM])
def test_other_machines_that_are_written_are_libsvms(make, tmp_path):
    X, _ = data()
    model = make(Gaussian("scale"), device="cpu").fit(X, X[:, 0])
    save_libsvm_model(model, tmp_path / "x.model")
    values = Oracle((tmp_path / "x.model").read_text()).values(X)[:, 0]
    ours = model.predict(X) if make is SVR else model.decision_function(X)
    np.testing.assert_allclose(ours, values, atol=1e-4)
    again = load(tmp_path / "x.model")
    np.testing.assert_allclose(
        again.predict(X) if make is SVR else again.decision_function(X), ours, atol=1e-5
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_support_vectors_of_each_class_are_counted(n_classes, tmp_path):
    """Descending classes, as in `label`; the support vectors of a class stand together."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % n_classes
    X = rng.normal(size=(60, 3)) + 2 * np.eye(3)[y]
    model = SVC(Linear(), multiclass="ovo", device="cpu").fit(X, y)
    save_libsvm_model(model, tmp_path / "m")
    head = Oracle((tmp_path / "m").read_text()).head
    assert head["label"].split() == [str(label) for label in range(n_classes)][::-1]
    assert head["nr_sv"].split() == [str(count) for count in model.n_support_.tolist()][::-1]
    assert min(model.n_support_) > 0


def test_vectors_of_the_user_are_not_widened(tmp_path):
    model = SVC(Linear(), device="cpu").fit(csr_array(np.eye(4)), [0, 1, 0, 1])
    narrow = csr_array(np.eye(2))
    assert fit_columns(model.model_, narrow)[1].shape == (2, 4)
    assert narrow.shape == (2, 2)


def test_a_file_of_svm_train(tmp_path):
    (tmp_path / "x.model").write_text(BY_LIBSVM)
    model = load(tmp_path / "x.model")
    assert model.classes_.tolist() == [-1, 1, 3]
    assert model.model_.info["libsvm"]["ignored"] == ["probA", "probB"]
    X = np.array([[1, 0.5], [0.2, 0], [0, 1], [0.1, 2], [3, 3]])
    assert model.predict(X).tolist() == [1, -1, 3, 3, 3]  # what svm-predict said
    assert model.n_support_.tolist() == [1, 1, 2]


def test_columns_are_as_many_as_a_file_has(tmp_path):
    (tmp_path / "x.model").write_text(BY_LIBSVM)
    assert load_libsvm_model(tmp_path / "x.model", n_features=4).n_features_in_ == 4
    with pytest.raises(InputError, match="support vectors of 2 columns, more than 1"):
        load_libsvm_model(tmp_path / "x.model", n_features=1)
    model, oracle = textsvm.load(tmp_path / "x.model"), Oracle(BY_LIBSVM)
    from scipy.sparse import csr_matrix

    wide = np.array([[1, 0.5, 0, 2.0], [0, 0, 1, 0]])
    wider, given = fit_columns(model, csr_matrix(wide))
    assert wider.support.n_features == 4
    assert wider.predict(given).tolist() == oracle.predict(wide)[0].tolist()
    _, narrow = fit_columns(wider, csr_matrix(np.array([[1.0]])))
    assert narrow.shape == (1, 4)


BAD = [
    ("gamma 0.5\n", "", "the rbf kernel needs a single number gamma"),
    ("gamma 0.5", "gamma -1", "gamma=-1.0 of the gaussian kernel must be"),
    ("gamma 0.5", "gamma nan", "line 3: gamma is 'nan', which is not a finite number"),
    ("gamma 0.5", "gamma 0.5\ngamma 1", "line 4: gamma is there twice"),
    ("rbf", "precomputed", "a model of a precomputed kernel matrix, which has no vectors"),
    ("rbf", "cosine", "kernel_type cosine is none of LIBSVM's"),
    ("c_svc", "c_svm", "svm_type c_svm is none of LIBSVM's"),
    ("nr_class 3", "nr_class 4", "rho has 3 numbers and needs 6"),
    ("nr_class 3", "nr_class 1", "a classifier needs two classes"),
    ("nr_class 3", "nr_class 99999999999999999999", "line 4: nr_class is '99999999999999999999'"),
    ("nr_class 3\n", "", "nr_class must be a single number"),
    ("total_sv 4", "total_sv 5", "nr_sv does not add up to total_sv, 5"),
    ("total_sv 4", "total_sv -4", "total_sv must be a single number of at least 0"),
    ("nr_sv 1 1 2", "nr_sv 1 -1 4", "nr_sv does not add up"),
    ("label 1 -1 3", "label 1 1 3", "a label is there twice"),
    ("label 1 -1 3", "label 1 3", "label has 2 numbers and needs 3"),
    ("label 1 -1 3", "label 1 a 3", "line 7: label is 'a', which is not a whole number"),
    ("nr_sv", "nr_svs", "line 10: 'nr_svs' is not a keyword"),
    ("SV\n", "", "is not a keyword"),
    ("-2.7841523910926194 2.4662163433495774 1:0.2 \n", "", "has 3 support vectors and total_sv says 4"),
    ("2.4662163433495774 1:0.2", "1:0.2", "line 13: the coefficient '1:0.2' is not a finite number"),
    ("2.4662163433495774 1:0.2", "inf 1:0.2", "line 13: the coefficient 'inf' is not a finite number"),
    (" 2.4662163433495774 1:0.2", "", "line 13: 1 coefficients; there must be 2"),
    ("-2.7841523910926194 2.4662163433495774 1:0.2", "-1 1 0:0.2", "line 13, column 6: the index is 0"),
    (
        "-2.7841523910926194 2.4662163433495774 1:0.2",
        "-1 1 1:0.2 1:0.3",
        "line 13, column 12: the index 1 occurs twice in a line",
    ),
    (
        "2.7841523910926194 2.1694035840697223 1:1 2:0.5",
        "1 1 1:1 2:x",
        "line 12, column 11: the value 'x' of index '2'",
    ),
    (
        "2.7841523910926194 2.1694035840697223 1:1 2:0.5",
        "1 1 1:1 3000000000:1",
        "line 12, column 9: the index '3000000000' is too large",
    ),
]


@pytest.mark.parametrize(("old", "new", "what"), BAD, ids=[what for _, _, what in BAD])
def test_a_damaged_file_is_one_sentence(old, new, what, tmp_path):
    text = BY_LIBSVM.replace(old, new, 1)
    assert text != BY_LIBSVM
    (tmp_path / "x.model").write_text(text)
    with pytest.raises(InputError, match=re.escape(what)) as error:
        load(tmp_path / "x.model")
    assert "x.model" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("end", [20, 100, 300, 400])
def test_a_file_that_is_cut_off_is_refused(end, tmp_path):
    (tmp_path / "x.model").write_text(BY_LIBSVM[:end])
    with pytest.raises(InputError):
        load(tmp_path / "x.model")


def test_what_libsvm_has_not_is_refused(tmp_path):
    X, codes = data()
    path = tmp_path / "x.model"
    with pytest.raises(InputError, match="LIBSVM has no model of the kernel spectrum:4"):
        save_libsvm_model(SVC(Spectrum(4), device="cpu").fit(["aaaab", "bbbba"], [0, 1]), path)
    with pytest.raises(InputError, match="in pairs, and this model does not"):
        save_libsvm_model(SVC(Linear(), device="cpu").fit(X, codes), path)
    with pytest.raises(InputError, match="class 'a' is not a whole number"):
        save_libsvm_model(SVC(Linear(), device="cpu").fit(X, np.where(codes, "a", "2")), path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("svm-predict") is None, reason="needs LIBSVM's programs (libsvm-tools)")
@pytest.mark.parametrize("n_classes", [2, 4])
def test_svm_predict_reads_what_is_written(n_classes, tmp_path):
    X, codes = data(n_classes)
    model = SVC(Gaussian(0.1), multiclass="ovo", device="cpu").fit(X, codes)
    save_libsvm_model(model, tmp_path / "x.model")
    write_libsvm(tmp_path / "x.svm", X, codes)
    command = ["svm-predict", "x.svm", "x.model", "out"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=os.environ)
    theirs = np.loadtxt(tmp_path / "out")
    assert (theirs == model.predict(X)).mean() > 0.97  # ties
