"""Online classification: exact machines that learn and unlearn single texts (`textsvm.solvers.online`).

Two classes have a single machine; more have a machine for each class, against the rest, and the largest value
wins. The probability of class k is

    p_k = exp(t f_k) / sum over j of exp(t f_j),

which with two classes is the sigmoid 1 / (1 + exp(-t f)). The scale t > 0 is the same for all classes, so the
likeliest class is always the predicted class. It maximises the likelihood of the leave-one-out decision
values that the machines estimate (`OnlineMachine.left_out`), with Platt's targets (n + 1) / (n + classes) for
a class of n texts instead of 1, so that a training set without mistakes does not make every text certain
(Platt 1999; a single scale as in Guo et al. 2017).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.kernels.inputs import as_texts
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.machines.base import NotConvergedWarning, warn_user
from textsvm.machines.targets import as_classes, as_known, is_integer, is_number
from textsvm.runtime.device import Device, select
from textsvm.runtime.parallel import StageProgress
from textsvm.runtime.parameters import Parameters
from textsvm.selection.calibration import decide
from textsvm.solvers.online import OnlineMachine
from textsvm.text.byte_pmers import LONGEST, byte_pmers, unit

_DIGEST = 16
#: Largest scale of decision values in probabilities.
_MAX_SCALE = 100.0
#: Coefficient in a model file of a text that a machine has forgotten.
_FORGOTTEN = -1.0


@dataclass(repr=False, eq=False)
class OnlineClassifier(Parameters):
    """The machine of `textsvm.OnlineSVC`."""

    C: float = 1.0
    p: int = 4
    _: KW_ONLY
    tol: float = 1e-3
    max_texts: int | None = None
    max_bytes: int | None = None

    estimator_name: ClassVar[str] = "OnlineSVC"
    #: Category of the warning that the solver did not converge.
    warning: ClassVar[type[Warning]] = NotConvergedWarning
    #: Reject option of `decide`, as in `CalibratedClassifier`.
    reject: ClassVar[Any] = None

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        for name in ("C", "tol"):
            value = getattr(self, name)
            if not (is_number(value) and 0 < value < np.inf):
                raise InputError(f"{name}={value!r} must be a number above 0")
        if not (is_integer(self.p) and 1 <= self.p <= LONGEST):
            raise InputError(f"p={self.p!r} must be a whole number from 1 to {LONGEST}")
        for name in ("max_texts", "max_bytes"):
            value = getattr(self, name)
            if value is not None and not (is_integer(value) and value > 0):
                raise InputError(f"{name}={value!r} must be a whole number above 0, or None")

    def require_fitted(self) -> None:
        """Raise InputError before `fit`."""
        if "classes_" not in vars(self):
            raise InputError(f"this {self.estimator_name} is not fitted; call fit first")

    def _new_machines(self) -> list[OnlineMachine]:
        n_machines = 1 if len(self.classes_) == 2 else len(self.classes_)
        return [OnlineMachine(self.C, self.tol, self.max_texts) for _ in range(n_machines)]

    def _begin(self, classes: NDArray[Any]) -> None:
        if len(classes) < 2:
            raise InputError(f"two or more classes are needed, got {len(classes)}; name them with classes=")
        self.classes_ = classes
        self.machines_ = self._new_machines()
        #: Digest of a text -> the numbers of its copies; number -> digest, and class.
        self._copies: dict[bytes, list[Hashable]] = {}
        self._digests: dict[Hashable, bytes] = {}
        self._codes: dict[Hashable, int] = {}
        self._n_seen = 0
        #: Scale of decision values in probabilities, by its name; empty until it is needed.
        self._scales: dict[str, float] = {}
        self.info_: dict[str, Any] = {}

    def fit(self, X: Any, y: Any) -> Any:
        """Learn these texts, and forget all others.

        Parameters
        ----------
        X : list of str, NumPy string or object array, or pandas, Polars or Arrow column; n texts
        y : array-like, shape (n,)
            Labels of two or more classes.

        Raises
        ------
        InputError
            If a parameter, a text or a label is invalid, or there is only a single class.
        """
        self.check()
        texts = self._validate(X)
        classes, codes = as_classes(y, len(texts))
        self._begin(classes)
        return self._learn(texts, codes)

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Any:
        """Learn these texts in addition to the known texts.

        Parameters
        ----------
        X, y : n texts and their labels, as for `fit`
            A text that was learnt before counts once more.
        classes : array, shape (n_classes,), optional
            All classes; needed in the first call if `y` lacks some of them. `add_classes` adds further
            classes later.

        Raises
        ------
        InputError
            As for `fit`; also if a label is not in `classes_`.
        """
        self.check()
        texts = self._validate(X)
        if not hasattr(self, "classes_"):
            known = as_classes(y, len(texts))[0] if classes is None else np.unique(np.asarray(classes))
            codes = as_known(y, len(texts), known)
            self._begin(known)
        else:
            codes = as_known(y, len(texts), self.classes_)
        return self._learn(texts, codes)

    def add_classes(self, classes: ArrayLike) -> Any:
        """Add classes, so that `partial_fit` accepts their labels; the known texts are learnt again.

        The known texts count against each new class. Texts beyond `max_texts` stay forgotten.
        """
        self.require_fitted()
        old, self.classes_ = self.classes_, np.union1d(self.classes_, np.asarray(classes))
        if len(self.classes_) == len(old):
            return self
        place = np.searchsorted(self.classes_, old).tolist()
        rows = {name: self._keys_of(name) for name in self._codes}
        self._codes = {name: place[code] for name, code in self._codes.items()}
        self.machines_ = self._new_machines()
        for name, keys in rows.items():
            self._add(name, keys, self._codes[name])
        return self._settle()

    def unlearn(self, X: Any) -> Any:
        """Forget these texts, as if they had not been learnt; of equal texts the copy learnt last.

        Raises
        ------
        InputError
            If a text is unknown; no text is then forgotten.
        """
        self.require_fitted()
        texts = as_texts(X)
        names: list[Hashable] = []
        for i, text in enumerate(texts):
            held = [name for name in self._copies.get(_digest(text), []) if name not in names]
            if not held:
                raise InputError(f"document {i} was not learnt, or was forgotten beyond max_texts")
            names.append(held[-1])
        for name in names:
            for machine in self.machines_:
                if name in machine:
                    machine.remove(name)
            self._forget(name)
        return self._settle()

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> NDArray[np.float64]:
        """Decision values of texts; the largest wins.

        Returns
        -------
        float64 array
            Two classes, shape (n,): positive means ``classes_[1]``. More, shape (n, n_classes).
        """
        self.require_fitted()
        rows = [self._features(text) for text in as_texts(X)]
        values = [[machine.decision(*row) for machine in self.machines_] for row in rows]
        array = np.array(values, np.float64).reshape(len(rows), len(self.machines_))
        return array[:, 0] if array.shape[1] == 1 else array

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each text, shape (n,)."""
        values = self.decision_function(X)
        codes = (values > 0).astype(np.int64) if values.ndim == 1 else values.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, shape (n, n_classes); rows sum to 1.

        A sigmoid of the decision values (with more than two classes a softmax), whose scale is fitted to
        estimated leave-one-out values. It has no shift, so the likeliest class is the predicted class.

        Raises
        ------
        InputError
            If fewer than two classes have texts.
        """
        return self.probabilities(self.decision_function(X))

    def probabilities(self, decision: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities, shape (n, n_classes), of decision values, shape (n,) or (n, n_classes)."""
        if not self._scales:
            self._scales["scale"] = fit_scale(*self.left_out(), len(self.classes_))
        return _softmax(self._scales["scale"] * _by_class(decision))

    def decide(self, probabilities: NDArray[np.float64]) -> NDArray[Any]:
        """Predictions, shape (n,), from probabilities, shape (n, n_classes)."""
        return decide(probabilities, self.classes_, self.reject)

    def left_out(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Estimated leave-one-out decision values of the known texts, and their class numbers, shape (n,).

        Texts that a machine has forgotten beyond `max_texts` are left out.
        """
        self.require_fitted()
        by_machine = [
            dict(zip(machine.names, machine.left_out()[0].tolist(), strict=True))
            for machine in self.machines_
        ]
        names = [name for name in self._codes if all(name in values for values in by_machine)]
        values = np.array([[each[name] for each in by_machine] for name in names], np.float64)
        values = values.reshape(len(names), len(by_machine))
        codes = np.array([self._codes[name] for name in names], np.int64)
        return values[:, 0] if len(by_machine) == 1 else values, codes

    @property
    def machine_(self) -> OnlineMachine:
        """The machine of two classes."""
        self.require_fitted()
        if len(self.machines_) > 1:
            raise AttributeError(f"there are {len(self.machines_)} machines; take machines_")
        return self.machines_[0]

    @property
    def kernel_(self) -> Spectrum:
        """The kernel; it counts symbols where this model counts bytes, which is the same for ASCII."""
        return Spectrum(p=self.p, weight="presence", keep_case=True)

    @property
    def device_(self) -> Device:
        """The CPU."""
        return select("cpu")

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON values and arrays for `textsvm.save`: the features of all known texts and coefficients."""
        names = np.sort(np.array(list(self._codes), np.int64)).tolist()
        rows = [self._keys_of(name) for name in names]
        alphas = [machine.alphas for machine in self.machines_]
        digests = b"".join(self._digests[name] for name in names)
        n_support = np.zeros(len(self.classes_), np.int64)
        for name in names:
            n_support[self._codes[name]] += any(each.get(name, 0.0) > 0 for each in alphas)
        arrays: dict[str, NDArray[Any]] = {
            "online.offsets": np.cumsum([0, *map(len, rows)]).astype(np.int64),
            "online.keys": np.concatenate([np.empty(0, np.uint64), *rows]),
            "online.numbers": np.array(names, np.int64),
            "online.codes": np.array([self._codes[name] for name in names], np.int64),
            "online.digests": np.frombuffer(digests, np.uint8).reshape(len(names), _DIGEST),
            "online.alpha": np.array(
                [[each.get(name, _FORGOTTEN) for name in names] for each in alphas], np.float64
            ),
        }
        return {"n_seen": self._n_seen, "n_support": n_support.tolist()}, arrays

    def restore(
        self,
        classes: NDArray[Any],
        n_seen: int,
        arrays: Mapping[str, NDArray[Any]],
        info: dict[str, Any],
    ) -> Any:
        """Set the fitted state from `state`; InputError or ValueError if it is invalid."""
        numbers, codes, offsets = (arrays[f"online.{name}"] for name in ("numbers", "codes", "offsets"))
        keys, digests, alpha = (arrays[f"online.{name}"] for name in ("keys", "digests", "alpha"))
        n, classes = len(numbers), np.asarray(classes)
        self._begin(classes)
        for array, kind, shape in (
            (numbers, np.int64, (n,)),
            (codes, np.int64, (n,)),
            (offsets, np.int64, (n + 1,)),
            (keys, np.uint64, (int(offsets[-1]),)),
            (digests, np.uint8, (n, _DIGEST)),
            (alpha, np.float64, (len(self.machines_), n)),
        ):
            if array.dtype != kind or array.shape != shape:
                raise InputError("its arrays of an OnlineSVC do not fit each other")
        if offsets[0] != 0 or (np.diff(offsets) < 0).any() or (np.diff(numbers) <= 0).any():
            raise InputError("its texts are out of order")
        if n and (codes.min() < 0 or codes.max() >= len(classes) or numbers[0] < 0 or numbers[-1] >= n_seen):
            raise InputError("its texts have unknown classes or numbers")
        for i, (name, code) in enumerate(zip(numbers.tolist(), codes.tolist(), strict=True)):
            self._note(name, digests[i].tobytes(), code)
            self._add(name, keys[offsets[i] : offsets[i + 1]], code, alpha[:, i].tolist())
        self._n_seen, self.info_ = n_seen, info
        return self._settle()

    def _validate(self, X: Any) -> list[str]:
        texts = as_texts(X)
        if not texts:
            raise InputError("there are no documents to train on")
        return texts

    def _learn(self, texts: Sequence[str], codes: NDArray[np.int64]) -> Any:
        for text, code in zip(texts, codes.tolist(), strict=True):
            self._note(self._n_seen, _digest(text), code)
            self._add(self._n_seen, self._features(text)[0], code)
            self._n_seen += 1
        return self._settle()

    def _note(self, name: Hashable, digest: bytes, code: int) -> None:
        self._copies.setdefault(digest, []).append(name)
        self._digests[name], self._codes[name] = digest, code

    def _add(
        self, name: Hashable, keys: NDArray[np.uint64], code: int, alphas: Sequence[float] | None = None
    ) -> None:
        """Add a text to the machines, with its dual variables if they are known."""
        first = 1 if len(self.machines_) == 1 else 0
        for k, machine in enumerate(self.machines_):
            alpha = 0.0 if alphas is None else alphas[k]
            if alpha != _FORGOTTEN:
                machine.add(name, keys, unit(keys), code == k + first, alpha)

    def _keys_of(self, name: Hashable) -> NDArray[np.uint64]:
        return next(machine for machine in self.machines_ if name in machine).features(name)

    def _settle(self) -> Any:
        self._scales.clear()
        for machine in self.machines_:
            if not machine.settle():
                warn_user(
                    f"the violation {machine.violation:.2g} is above tol={self.tol:g} after "
                    f"{machine.pairs:,} pairs; the next call continues, and a smaller C converges sooner",
                    self.warning,
                )
        for machine in self.machines_:
            for name in machine.forgotten:
                if name in self._digests and not any(name in each for each in self.machines_):
                    self._forget(name)
            machine.forgotten.clear()
        return self

    def _forget(self, name: Hashable) -> None:
        digest = self._digests.pop(name)
        del self._codes[name]
        self._copies[digest].remove(name)
        if not self._copies[digest]:
            del self._copies[digest]

    def _features(self, text: str) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        most = self.max_bytes
        keys = byte_pmers(text[:most].encode("utf-8", "surrogatepass")[:most], self.p)
        return keys, unit(keys)


def fit_scale(values: NDArray[np.float64], codes: NDArray[np.int64], n_classes: int) -> float:
    """The scale t of the softmax that maximises the likelihood of the classes, by bisection.

    The derivative of the negative logarithm of the likelihood, sum (p - y) f, rises with t.
    """
    counts = np.bincount(codes, minlength=n_classes)
    if np.count_nonzero(counts) < 2:
        raise InputError("probabilities need texts of two classes or more; learn some first")
    columns = _by_class(values)
    targets = np.repeat(1 / (counts[codes] + n_classes)[:, None], n_classes, axis=1)
    targets[np.arange(len(codes)), codes] *= counts[codes] + 1
    low, high = 0.0, _MAX_SCALE
    for _ in range(40):
        t = (low + high) / 2
        rising = float(((_softmax(t * columns) - targets) * columns).sum()) > 0
        low, high = (low, t) if rising else (t, high)
    return (low + high) / 2


def _by_class(decision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of each class, shape (n, n_classes); with two classes 0 and the decision value."""
    return decision if decision.ndim == 2 else np.stack([np.zeros_like(decision), decision], axis=1)


def _softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
