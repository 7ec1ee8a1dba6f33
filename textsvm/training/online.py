"""Trainer of online classifiers, whose exact machines (`textsvm.solvers.online`) learn and unlearn texts."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Floats, Ints, Json
from textsvm.errors import InputError, check_labels, warn_user
from textsvm.kernels.inputs import as_texts
from textsvm.model import online
from textsvm.model.rules import ScaledRule, scale_of
from textsvm.model.settings import NotConvergedWarning, OnlineSettings
from textsvm.model.trained import TrainedModel
from textsvm.sources.base import Support
from textsvm.training.targets import as_classes, as_known


class OnlineLearner:
    """Learns and unlearns texts; after each call it is at the optimum for the texts that are left.

    `model` is that of an OnlineSVC, whose texts are known already; it does not change. `warning` is the
    category of the warning that the solver did not converge.
    """

    def __init__(
        self,
        settings: OnlineSettings,
        model: TrainedModel | None = None,
        warning: type[Warning] = NotConvergedWarning,
    ) -> None:
        settings.check()
        self.settings, self.warning = settings, warning
        self.reader = online.ByteReader(settings.p, settings.max_bytes)
        self.texts: online.OnlineTexts | None = None
        self._rule: ScaledRule | None = None  #: With the scale of the known texts; None after a lesson
        self.info: Json = {}  #: Of the loaded model
        if model is not None:
            if not isinstance(model.predictor, online.OnlineExpansion):
                raise InputError(
                    f"a model of {model.estimator_name} does not learn single texts; train it again"
                )
            self.texts, self.info = copy.deepcopy(model.predictor.texts), model.info

    def model(self) -> TrainedModel:
        """The trained model at present; later lessons do not change it."""
        return online.online_model(copy.deepcopy(self.known), self.settings, self.info)

    @property
    def known(self) -> online.OnlineTexts:
        """The texts learnt so far; InputError before the first."""
        if self.texts is None:
            raise InputError("this OnlineSVC is not fitted; call fit first")
        return self.texts

    def decision_function(self, X: object) -> Floats:
        """Decision values of texts, as those of `model`."""
        rows = self.reader.encode_test(self.reader.validate(X), Support(np.empty(0, np.int64)))
        return self.plain_rule.scores(online.OnlinePredictor(self.known.machines).values(rows))

    @property
    def plain_rule(self) -> ScaledRule:
        """The rule of the known classes, without a scale."""
        return ScaledRule(self.known.classes)

    @property
    def rule(self) -> ScaledRule:
        """The rule of the known texts, as that of `model`."""
        if self._rule is None:
            values, codes = self.left_out()
            classes = self.known.classes
            self._rule = ScaledRule(classes, scale=scale_of(values, codes, len(classes)))
        return self._rule

    def fit(self, X: object, y: object) -> None:
        """Learn these texts, and forget all others; `textsvm.OnlineSVC.fit` has the details."""
        texts = _texts(X)
        classes, codes = as_classes(y, len(texts))
        self._begin(classes)
        self._learn(texts, codes)

    def partial_fit(self, X: object, y: object, classes: ArrayLike | None = None) -> None:
        """Learn these texts in addition to the known texts."""
        texts = _texts(X)
        if self.texts is None:
            names = as_classes(y, len(texts))[0] if classes is None else np.unique(np.asarray(classes))
            codes = as_known(y, len(texts), names)
            self._begin(names)
        else:
            codes = as_known(y, len(texts), self.texts.classes)
        self._learn(texts, codes)

    def add_classes(self, classes: ArrayLike) -> None:
        """Add classes; the known texts are learnt again and count against each new class."""
        store = self.known
        every = np.union1d(store.classes, np.asarray(classes))
        check_labels(every.tolist())
        if len(every) == len(store.classes):
            return
        place = np.searchsorted(every, store.classes).tolist()
        rows = {name: store.keys_of(name) for name in store.codes}
        store.codes = {name: place[code] for name, code in store.codes.items()}
        store.classes, store.machines = every, online.new_machines(len(every), self.settings)
        for name, keys in rows.items():
            store.add(name, keys, store.codes[name])
        self._settle()

    def unlearn(self, X: object) -> None:
        """Forget these texts, as if they had not been learnt; of equal texts the copy learnt last."""
        store, removed = self.known, list[Hashable]()
        for i, text in enumerate(as_texts(X)):
            copies = [name for name in store.copies.get(online.digest_of(text), []) if name not in removed]
            if not copies:
                raise InputError(f"document {i} was not learnt, or was forgotten beyond max_texts")
            removed.append(copies[-1])
        for name in removed:
            for machine in store.machines:
                if name in machine:
                    machine.remove(name)
            store.forget(name)
        self._settle()

    def left_out(self) -> tuple[Floats, Ints]:
        """Estimated leave-one-out decision values of the known texts, and their class numbers, shape (n,)."""
        return self.known.left_out()

    def _begin(self, classes: AnyArray) -> None:
        if len(classes) < 2:
            raise InputError(f"two or more classes are needed, got {len(classes)}; name them with classes=")
        check_labels(classes.tolist())
        machines = online.new_machines(len(classes), self.settings)
        self.texts, self.info = online.OnlineTexts(classes, machines), {}

    def _learn(self, texts: Sequence[str], codes: Ints) -> None:
        store = self.known
        for text, code in zip(texts, codes.tolist(), strict=True):
            store.note(store.n_seen, online.digest_of(text), code)
            store.add(store.n_seen, self.reader.features(text)[0], code)
            store.n_seen += 1
        self._settle()

    def _settle(self) -> None:
        self._rule = None
        for machine in self.known.settle():
            warn_user(
                f"the violation {machine.violation:.2g} is above tol={self.settings.tol:g} after "
                f"{machine.pairs:,} pairs; the next call continues, and a smaller C converges sooner",
                self.warning,
            )


def _texts(X: object) -> list[str]:
    if not (texts := as_texts(X)):
        raise InputError("there are no documents to train on")
    return texts
