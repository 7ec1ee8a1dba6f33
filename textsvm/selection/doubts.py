"""Texts with a probably wrong label, by out-of-fold decision values and by their nearest texts.

Features of each text and class, which do not depend on the text's own label:

    f_k           decision values of a classifier trained on the other folds
    v_k(m, q)     shares of the classes among the m nearest texts, by normalised kernel values to the power q

with (m, q) = (10, 1), (30, 2) and (100, 3). Both come from a single Gram. Their weights w >= 0, and a bias
c_k of each class, maximise the likelihood of the given labels,

    p_k = exp(w_0 f_k + sum_i w_i v_k(m_i, q_i) + c_k) / sum_j exp(...),

and the score of a text is 1 - p of its label. reports/default_study.md has the features that were compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Bools, Floats, Ints
from textsvm.choice.candidates import has_words
from textsvm.errors import InputError
from textsvm.gram.nearest import NeighbourTable, nearest
from textsvm.kernels.base import Kernel, Sum
from textsvm.kernels.inputs import as_texts
from textsvm.kernels.spectrum.kernel import Spectrum, fixed_default
from textsvm.model.settings import ClassifierSettings, is_default
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parallel import StageProgress, of_stage
from textsvm.runtime.parameters import with_short_repr
from textsvm.sources.copies import merge_groups
from textsvm.training.fold_grams import fold_scores, solve_folds
from textsvm.training.folds import make_folds, n_together
from textsvm.training.targets import Target
from textsvm.training.thresholds import mean_values
from textsvm.training.train import on_columns, prepare, read_training_data

#: Number of nearest texts that vote, and the power of the kernel values in their weights.
VOTES = ((10, 1), (30, 2), (100, 3))
#: Outliers: the logarithm of the nearest value lies this many quartile distances below the lower quartile.
FAR = 3.0


@dataclass(frozen=True)
class Doubt:
    """A text to review."""

    index: int
    label: Any  #: Given and likeliest label; equal if the text is doubtful for another reason.
    suggested: Any
    score: float  #: Probability that another label is right, 0..1
    reasons: list[str]  #: Sentences, the strongest reason first
    #: Text to compare with: a near-copy with another label, else the nearest text with the suggested label,
    #: else the nearest text.
    other: int
    similarity: float  #: Normalised kernel value of the two
    #: tuple of {"label", "copy", "outlier"}: Doubtful label; near-copy with another label; no similar text.
    kinds: tuple[str, ...]


@with_short_repr
@dataclass(frozen=True)
class Doubts:
    """Estimates for the labels of all texts."""

    labels: AnyArray  #: shape (n,): Given labels
    suggested: AnyArray  #: shape (n,): Likeliest labels
    score: Floats  #: shape (n,): Probability that the given label is wrong
    #: shape (n, n_classes): Probability of each class, without regard to the text's own label.
    probability: Floats
    classes: AnyArray  #: array, shape (n_classes,)
    nearest: NeighbourTable  #: The most similar texts of each text
    alike: float  #: Normalised kernel value from which two texts are near-copies
    outlier: Bools  #: shape (n,): Whether no other text resembles it
    copies: int = 0  #: As in `textsvm.selection.cross_validation.CrossValidation`

    def order(self) -> Ints:
        """Indices of all texts, the most doubtful label first."""
        return np.argsort(-self.score, kind="stable")

    def ranked(self, ids: Sequence[str] | None = None, at_least: float = 0.5) -> list[Doubt]:
        """Texts to review, the most doubtful first; reasons have `ids`, or numbers from 0.

        A doubtful label has `at_least` this score; near-copies with different labels and outliers have any.
        """
        return [doubt for doubt in (self._doubt(int(i), ids, at_least) for i in self.order()) if doubt.kinds]

    def _doubt(self, i: int, ids: Sequence[str] | None, at_least: float) -> Doubt:
        label, suggested = (values[i : i + 1].tolist()[0] for values in (self.labels, self.suggested))
        copy, kinds, reasons = self._copy(i), [], []
        if self.score[i] >= at_least and suggested != label:
            kinds.append("label")
            p, own = self.probability[i].max(), 1 - self.score[i]
            reasons.append(f"by its content {suggested} with probability {p:.1%}, {label} with {own:.1%}")
        if copy is not None:
            kinds.append("copy")
            at, other = self.nearest.value[i, copy], int(self.nearest.index[i, copy])
            name = ids[other] if ids is not None else f"text {other}"
            reasons.append(f"nearly the same text as {name}, which is {self.labels[other]} ({at:.3f})")
        if kinds:
            near = self._near(i)[:10]
            labels, counts = np.unique(near[near != self.labels[i]], return_counts=True)
            if len(labels) and 2 * counts.max() > len(near):
                most = f"{counts.max()} of its {len(near)} nearest texts are {labels[counts.argmax()]}"
                reasons.append(most)
        if self.outlier[i]:
            kinds.append("outlier")
            reasons.append(f"resembles no other text (the nearest: {self.nearest.value[i, 0]:.3f})")
        other, similarity = i, 0.0
        if self.nearest.index.size:
            # Rank of the nearest text with the suggested label; 0 if there is none.
            rank = int((self._near(i) == suggested).argmax()) if copy is None else copy
            other, similarity = int(self.nearest.index[i, rank]), float(self.nearest.value[i, rank])
        return Doubt(i, label, suggested, float(self.score[i]), reasons, other, similarity, tuple(kinds))

    def _copy(self, i: int) -> int | None:
        """Rank of the nearest near-copy with another label."""
        copies = (self.nearest.value[i] >= min(self.alike, 1 - 1e-5)) & (self._near(i) != self.labels[i])
        return int(copies.argmax()) if copies.any() else None

    def _near(self, i: int) -> AnyArray:
        return self.labels[self.nearest.index[i]]


def doubts(
    model: object,
    texts: object,
    labels: ArrayLike,
    *,
    cv: object = 10,
    groups: ArrayLike | None = None,
    random_state: int | None = 0,
    progress: StageProgress | None = None,
) -> Doubts:
    """Find texts with a probably wrong label; the model itself is not changed.

    Parameters
    ----------
    model : SVC, optional
        Kernel and C of the classifiers. Without a given kernel (``"auto"``, ``"fast"``, or no model) it is
        ``Spectrum((1, 5), "log", idf=True)``, plus words and pairs of words if the texts have words.
    texts : n texts or vectors, or a kernel matrix with ``kernel="precomputed"``
    labels : array-like, shape (n,)
    cv : int, scikit-learn splitter, or sequence of (train, test) index pairs
        Folds of the decision values, see `textsvm.cross_validate`.
    groups : array-like, shape (n,), optional
        Texts of a group (a book, a thread) say nothing about each other's labels.
    random_state : int, optional
        Seed of the folds.
    progress : callable, optional
        Called with the stage ("encode", "gram", "solve" or "compare"), the work done and the total work.

    Raises
    ------
    InputError
        If an argument is invalid, or the kernel learns from labels.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, doubts
    >>> texts = ["red apple", "red cherry", "ripe apple", "ripe cherry", "fast car", "fast train"] * 2
    >>> labels = ["fruit", "fruit", "fruit", "car", "car", "car"] + ["fruit"] * 4 + ["car"] * 2
    >>> result = doubts(SVC(Spectrum(2)), texts, labels, cv=2)
    >>> [(texts[i], labels[i]) for i in result.order()[:1]]
    [('ripe cherry', 'car')]
    """
    settings = ClassifierSettings() if model is None else getattr(model, "settings", model)
    if not isinstance(settings, ClassifierSettings):
        raise InputError(f"doubts needs an SVC, got {type(model).__name__}: it is about labels of classes")
    examples, target, _ = read_training_data(settings, texts, labels, None, groups=groups)
    folds = make_folds(cv, target, random_state=random_state)
    if is_default(settings.kernel):
        settings = on_columns(settings, examples)
    if is_default(settings.kernel):
        settings = replace(settings, kernel=plain_kernel(as_texts(examples)))
    leaves = () if isinstance(settings.kernel, str) else settings.new_kernel().structure.leaves
    if any(getattr(leaf, "odds", False) for leaf in leaves):
        raise InputError("the kernel learns from the labels in doubt; give a kernel without odds")

    def judged_on(device: str) -> Doubts:
        on_device = settings.on(device)
        prepared = prepare(on_device, texts, progress)
        with settings.at_work(devices.select(device)):
            gram = prepared.gram
            machines = solve_folds([on_device], gram, target, folds, None, of_stage(progress, "solve"))
            values = fold_scores([on_device], gram, target, folds, machines)[0]
            near = nearest(gram, max(m for m, _ in VOTES), of_stage(progress, "compare"))
            gram.release()
        decision, _ = mean_values(values, folds, len(examples))
        return _judged(target, np.nan_to_num(decision), near, prepared.kernel.structure.alike)

    return replace(devices.run_on(settings.device, judged_on), copies=n_together(target.copies, folds))


def plain_kernel(texts: list[str]) -> Kernel:
    """Default kernel, which learns nothing from labels; with words if the texts have words."""
    characters = fixed_default()
    words = Spectrum((1, 2), "log", idf=True, tokens="words")
    return Sum([characters, words]) if has_words(texts) else characters


def _judged(target: Target, decision: Floats, near: NeighbourTable, alike: float) -> Doubts:
    assert target.classes is not None
    codes, classes = target.values, target.classes
    if decision.ndim == 1:
        decision = np.stack([-decision, decision], axis=1) / 2
    # A copy of a text says nothing new about its label.
    together = merge_groups(target.groups, target.copies)
    voters = near if together is None else near.without(together)
    votes = [voters.votes(codes, len(classes), *count_and_power) for count_and_power in VOTES]
    features = np.stack([decision, *votes], axis=2)
    weights, biases = feature_weights(features, codes)
    p = scipy.special.softmax(features @ weights + biases, axis=1)
    score, suggested = 1 - p[np.arange(len(codes)), codes], classes[p.argmax(axis=1)]
    return Doubts(classes[codes], suggested, score, p, classes, near, alike, outliers(near.value))


def feature_weights(features: Floats, codes: Ints) -> tuple[Floats, Floats]:
    """Weights >= 0 of features, shape (n, n_classes, n_features), and biases of classes.

    They maximise the likelihood of the given classes.
    """
    (n, k, m), rows = features.shape, np.arange(len(codes))
    share = np.bincount(codes, minlength=k) / n

    def loss(parameters: Floats) -> tuple[float, Floats]:
        log_p = scipy.special.log_softmax(features @ parameters[:m] + parameters[m:], axis=1)
        p = np.exp(log_p)
        slope = np.einsum("nk,nkm->m", p, features) / n - features[rows, codes].mean(axis=0)
        # A weak prior: features that are never wrong would get infinite weights.
        slope = np.concatenate([slope, p.mean(axis=0) - share]) + 2e-3 * parameters
        return float(1e-3 * parameters @ parameters - log_p[rows, codes].mean()), slope

    start = np.concatenate([np.ones(m), np.zeros(k)])
    bounds = [(0, None)] * m + [(None, None)] * k
    best = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return best[:m], best[m:]


def outliers(similarity: Floats) -> Bools:
    """Whether each text resembles no other, by its nearest value, the first of each row."""
    if not similarity.size:
        return np.zeros(len(similarity), bool)
    logs = np.log(np.maximum(similarity[:, 0], 1e-12))
    low, high = np.percentile(logs, [25, 75])
    return logs < low - FAR * max(high - low, 1e-6)
