"""A kernel that this file alone defines does all that the kernels of the house do."""

from dataclasses import dataclass

import numpy as np
import pytest
from contracts import KernelContract
from loading import reloaded

from textsvm import SVC, cross_validate, tune
from textsvm.cli.machines import options_of
from textsvm.errors import InputError
from textsvm.evaluation.explanation import explain
from textsvm.evaluation.judge import judge
from textsvm.gram.build import grams
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Ability, Kernel
from textsvm.kernels.contract import Cost, HostRows, Sharing
from textsvm.kernels.options import Option
from textsvm.kernels.shared.normalisation import Normalisation
from textsvm.reporting.report import make_report
from textsvm.runtime.device import select
from textsvm.text.documents import encode

TEXTS = ["red roses", "a rose is red", "rosy red", "green grass", "grass grows", "a green tree"] * 3
LABELS = ["red", "red", "red", "green", "green", "green"] * 3


@dataclass(frozen=True)
class SharedCounts(Sharing):
    """Symbols are counted once."""

    def description(self, kernels):
        return "from one count"

    def grams(self, kernels, documents, device, progress=None):
        for position, kernel in enumerate(kernels):
            yield position, kernel.rows(documents, device).gram(progress)


class SymbolsCost(Cost):
    sharing = SharedCounts()


class SharedSymbols(Kernel):
    """(sum_c n_c(s) n_c(t))^power, normalised, n_c(s) how often symbol c is in s."""

    name = "symbols"
    cost = Ability(SymbolsCost)
    _min_length = 1

    def __init__(self, power=1):
        self.power = power

    def check(self):
        if self.power not in (1, 2):
            raise InputError(f"power={self.power!r} is neither 1 nor 2")

    def rows(self, documents, device):
        self.check()
        return SymbolRows(self, documents)


def counts_of(documents, width):
    counts = np.zeros((len(documents), width))
    np.add.at(counts, (np.repeat(np.arange(len(documents)), documents.lengths), documents.codes), 1)
    return counts


class SymbolRows(HostRows):
    def __init__(self, kernel, documents):
        self.kernel, self.documents, self.device, self.n = kernel, documents, select("cpu"), len(documents)
        self.norms = self.normalisation(documents)

    def normalisation(self, documents, columns=None):
        squares = (counts_of(documents, len(documents.alphabet)) ** 2).sum(axis=1)
        return Normalisation(documents, squares**self.kernel.power, True, columns)

    def diag(self):
        return self.norms.diagonal()

    def rows(self, indices):
        return self.gram()[indices]

    def gram(self, progress=None):
        if progress is not None:
            progress(1, 1)
        return self.cross(self.documents)

    def cross(self, others, progress=None):
        norms, width = self.normalisation(others, self.norms), len(others.alphabet)
        products = (counts_of(others, width) @ counts_of(self.documents, width).T) ** self.kernel.power
        values = (products * norms.scale[:, None] * self.norms.scale).astype(np.float32)
        norms.finish_rows(values, self.norms)
        return values


def by_definition(power):
    def value(s, t):
        def product(a, b):
            return sum(a.count(c) * b.count(c) for c in set(a)) ** power

        if not s or not t:
            return float(s == t)
        return product(s, t) / np.sqrt(product(s, s) * product(t, t))

    return value


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The only line of registration."""
    options = (Option("power", "exponent", "NUMBER", "1", "1,2", int),)
    monkeypatch.setitem(KERNELS, "symbols", (SharedSymbols, options))


class TestContract(KernelContract):
    cases = [(SharedSymbols(1), by_definition(1)), (SharedSymbols(2), by_definition(2))]  # noqa: RUF012


def test_it_trains_by_name_saves_loads_and_predicts(tmp_path):
    model = SVC("symbols", C=10, device="cpu").fit(TEXTS, LABELS)
    assert model.predict(TEXTS).tolist() == LABELS
    again = reloaded(model, tmp_path / "model")
    assert isinstance(again.kernel_, SharedSymbols)
    new = ["reddish", "grassy", "", "語"]
    np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))


@pytest.mark.filterwarnings("ignore:.*near-duplicate")
def test_it_is_cross_validated_and_tuned_with_shared_work():
    result = cross_validate(SVC(SharedSymbols(2), C=10, device="cpu"), TEXTS, LABELS, cv=3)
    assert result.pooled["accuracy"] > 0.9
    grid = {"kernel__power": [1, 2], "C": [0.1, 10]}
    best = tune(SVC(SharedSymbols(), device="cpu"), TEXTS, LABELS, grid, cv=3).best_estimator
    assert best.predict(["green green grass", "red roses"]).tolist() == ["green", "red"]
    kernels = [SharedSymbols(1), SharedSymbols(2)]
    shared = [gram.description for _, gram in grams(kernels, encode(TEXTS), select("cpu"))]
    assert len(shared) == 2
    assert all(description.endswith(", from one count") for description in shared)


def test_it_is_explained_and_reported():
    model = SVC(SharedSymbols(), C=10, device="cpu").fit(TEXTS, LABELS)
    [found] = explain(model, ["red tree"])
    assert (found.method.name, found.exact) == ("occlusion", False)
    without = model.decision_function(["red tree", "tree", "red "])
    np.testing.assert_allclose(found.symbols[:4], (without[0] - without[1]) / 4, atol=1e-6)
    wrong = ["green" if label == "red" else "red" for label in LABELS]
    report = make_report(model.model_, judge(model, TEXTS, wrong), TEXTS, [str(i) for i in range(len(TEXTS))])
    assert report.mistakes[0].explanation.method.name == "occlusion"
    assert dict(report.facts)["kernel"] == "symbols:power=1"


def test_it_has_options_on_the_command_line():
    options = options_of(KERNELS)
    assert options(kernel=["symbols"], power="2").single().power == 2
    assert [kernel.power for kernel in options(kernel=["symbols"]).grid(tuning=True)] == [1, 2]
    with pytest.raises(Exception, match="--power is not an option of the edit kernel"):
        options(kernel=["edit"], power="1").grid()
    with pytest.raises(Exception, match="power=5 is neither"):
        options(kernel=["symbols"], power="5").grid()


def test_every_option_of_a_kernel_has_a_help():
    for name in KERNELS:
        assert KERNELS[name].name == name
        assert all(option.help for option in KERNELS.options(name))
    assert KERNELS.options("user") == ()
