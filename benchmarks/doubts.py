"""Finding wrong labels: textsvm and cleanlab on randomly flipped labels, in one run.

A share of the labels is turned to another class with a seed; each method ranks all texts. Of cleanlab there
are out-of-fold probabilities (5 folds) of TF-IDF + logistic regression in several usual settings, each ranked
by self-confidence and by normalised margin, and by self-confidence of probabilities less the mean of each
class; the table has the one that is best on average over shares and seeds of the set, chosen in its favour.
Measures in per cent: precision among the first hits, as many as were turned and 50, and the area under
precision-recall (average precision). Labels that are wrong in the corpus itself count as false alarms. A set
is drawn from its training part, 5,000 texts of IMDB and up to 1,200 of the others.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from benchmarks.corpora import IMDB, SPAM, read
from benchmarks.harness import BenchmarkReport, benchmark, data_folder, option
from benchmarks.panel import read_set
from textsvm.estimators.svm import SVC
from textsvm.model.settings import ClassifierSettings
from textsvm.selection.doubts import doubts, plain_kernel
from textsvm.training.train import prepare

SETS = ("spamassassin", "trec6", "spooky", "imdb", "webkb")
SHARES = (0.05, 0.1)
#: Texts of a set, drawn with seed 0, and of IMDB.
MOST, MOST_IMDB = 1200, 5000
MEASURES = ("precision at the turned", "precision at 50", "area")
Measured = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """A usual way to probabilities: TF-IDF + logistic regression."""

    analyzer: str
    lengths: tuple[int, int]
    C: float

    @property
    def name(self) -> str:
        return f"{self.analyzer} {self.lengths[0]}-{self.lengths[1]}, C = {self.C:g}"


#: Of cleanlab's opponent.
SETTINGS = (
    Setting("char_wb", (2, 5), 1.0),
    Setting("word", (1, 2), 1.0),
    Setting("word", (1, 2), 10.0),
)


def texts_of(name: str, folder: Path | None) -> tuple[list[str], NDArray[np.int64]]:
    """The texts of a set and their classes as numbers; without a folder a sample of mails."""
    if name in ("imdb", "spamassassin"):
        corpus = read(folder, IMDB if name == "imdb" else SPAM)
        corpus = corpus.select(part="train") if name == "imdb" else corpus
        texts, labels = list(corpus.texts), np.array(corpus.labels)
    else:
        assert folder is not None
        task = read_set(folder / "panel", name)
        texts, labels = task.train, np.array(task.y_train)
    some = np.random.default_rng(0).permutation(len(texts))[: MOST_IMDB if name == "imdb" else MOST]
    return [texts[i] for i in some], np.unique(labels[some], return_inverse=True)[1]


def turned(codes: NDArray[np.int64], share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Classes of which a share is another one, drawn alike from all others; and which were turned."""
    rng, n_classes = np.random.default_rng(seed), int(codes.max()) + 1
    who = rng.choice(len(codes), round(share * len(codes)), replace=False)
    made, which = codes.copy(), np.zeros(len(codes), bool)
    made[who] = (codes[who] + rng.integers(1, n_classes, len(who))) % n_classes
    which[who] = True
    return made, which


def measures(score: NDArray[np.float64], which: NDArray[np.bool_]) -> Measured:
    """`MEASURES` of a ranking by score, the highest first, in per cent."""
    order = np.argsort(-score, kind="stable")
    first = [which[order[:most]].mean() for most in (which.sum(), 50)]
    return 100 * np.array([*first, average_precision_score(which, score)])


class Ours:
    """Doubts of one set from one Gram, which does not depend on the labels."""

    def __init__(self, texts: list[str], device: str) -> None:
        kernel = plain_kernel(texts)
        prepared = prepare(ClassifierSettings(kernel, device=device), texts)
        self.gram = prepared.gram.rows(np.arange(len(texts)))
        self.texts, self.device = texts, device

    def score(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        return doubts(SVC("precomputed", device=self.device), self.gram, codes).score

    def require_equal(self, codes: NDArray[np.int64]) -> None:
        """The scores of the texts themselves, by the one call of a user, are the same."""
        np.testing.assert_allclose(doubts(None, self.texts, codes).score, self.score(codes), atol=1e-3)


def opponents(texts: list[str]) -> Iterator[tuple[Setting, Any]]:
    """Settings and their features of the texts, which do not depend on the labels."""
    for analyzer in dict.fromkeys(setting.analyzer for setting in SETTINGS):
        some = [setting for setting in SETTINGS if setting.analyzer == analyzer]
        features = TfidfVectorizer(
            analyzer=analyzer, ngram_range=some[0].lengths, sublinear_tf=True, min_df=2
        ).fit_transform(texts)
        yield from ((setting, features) for setting in some)


def cleanlab_scores(features: Any, codes: NDArray[np.int64], setting: Setting) -> dict[str, Any]:
    """What cleanlab makes of out-of-fold probabilities, by the name of its score; high is doubtful."""
    from cleanlab.rank import get_label_quality_scores

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    # Of two classes the quicker solver, at the same optimum but for the bias.
    model = LogisticRegression(C=setting.C, solver="lbfgs" if codes.max() > 1 else "liblinear")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes of fewer texts than folds, and the last digits
        p = cross_val_predict(model, features, codes, cv=folds, method="predict_proba")
    ways = {
        "self-confidence": ("self_confidence", False),
        "normalised margin": ("normalized_margin", False),
        "self-confidence, adjusted": ("self_confidence", True),
    }
    return {
        way: -get_label_quality_scores(codes, p, method=method, adjust_pred_probs=adjust)
        for way, (method, adjust) in ways.items()
    }


def measure(name: str, folder: Path | None, seeds: int, device: str) -> list[dict[str, Any]]:
    """The rows of a set: each share, ours and the best setting of cleanlab."""
    texts, codes = texts_of(name, folder)
    drawn = {(share, seed): turned(codes, share, seed) for share in SHARES for seed in range(seeds)}
    machine = Ours(texts, device)
    if len(texts) <= 1000:
        machine.require_equal(drawn[SHARES[0], 0][0])
    found: dict[str, dict[tuple[float, int], Measured]] = {"textsvm": {}}
    for key, (made, which) in drawn.items():
        found["textsvm"][key] = measures(machine.score(made), which)
    if has_cleanlab():
        for setting, features in opponents(texts):
            for key, (made, which) in drawn.items():
                for way, score in cleanlab_scores(features, made, setting).items():
                    found.setdefault(f"{setting.name}, {way}", {})[key] = measures(score, which)
    others = {name: each for name, each in found.items() if name != "textsvm"}
    best = max(others, key=lambda one: np.mean([each[2] for each in others[one].values()]), default="")
    return [_row(name, (len(texts), int(codes.max()) + 1), share, best, found) for share in SHARES]


def _row(
    name: str,
    size: tuple[int, int],
    share: float,
    best: str,
    found: dict[str, dict[tuple[float, int], Measured]],
) -> dict[str, Any]:
    """Means over seeds."""
    row: dict[str, Any] = {"set": name, "texts": size[0], "classes": size[1], "turned": f"{share:.0%}"}
    for who in ("textsvm", best):
        if who:
            mean = np.mean([each for key, each in found[who].items() if key[0] == share], axis=0)
            title = "textsvm" if who == "textsvm" else "cleanlab"
            row |= {
                f"{measure}, {title}": float(value) for measure, value in zip(MEASURES, mean, strict=True)
            }
    return {**row, "cleanlab on": best} if best else row


def has_cleanlab() -> bool:
    """Whether there is the opponent."""
    try:
        import cleanlab.rank  # noqa: F401
    except ImportError:
        return False
    return True


@benchmark(
    "doubts",
    "Doubtful labels, beside cleanlab",
    "reports/doubts",
    option("--sets", default=",".join(SETS), recorded=False, help="names of sets, separated by commas"),
    option("--seeds", type=int, default=2, help="random draws of the flipped labels"),
    device="auto",
    quick="use the bundled sample of mails",
    note=__doc__ or "",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Flip a share of the labels and rank all texts by each method."""
    if not has_cleanlab():
        report.note += " cleanlab is not installed and was left out."
    for name in ["spamassassin"] if options.quick else options.sets.split(","):
        measured: list[dict[str, Any]] = []
        for number, share in enumerate(SHARES):
            key = f"{name}, {share:.0%}"
            if key not in report.rows and not measured:
                folder = None if options.quick else data_folder()
                measured = measure(name, folder, options.seeds, options.device)
            report.row(key, lambda number=number, measured=measured: measured[number])
