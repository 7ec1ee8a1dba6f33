"""The trained model: reader, predictor, decision rule and record.

    texts, columns, vectors -> reader -> encoded examples -> predictor -> values of the machines
    -> rule -> decision values, labels, probabilities, sets of labels

Threads may share a `TrainedModel`: no method changes its public fields, a lock guards the machines that are
prepared for a device, and callers must not modify its arrays.
`textsvm.load` and `textsvm.training.train` return it, and estimators hold it in `model_`. It has no
training code, so that predicting a single text waits for neither scikit-learn nor Numba.
`textsvm.as_estimator` makes an estimator of it for scikit-learn's tools.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from textsvm.arrays import AnyArray, Bools, Floats, Ints, Json, Words
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.contract import Predictor
from textsvm.model.conformal import largest
from textsvm.model.rules import CalibratedRule, ClassRule, NoveltyRule, Rule, ScaledRule, has_probabilities
from textsvm.model.top_features import TopFeatures, top_features
from textsvm.runtime import device as devices
from textsvm.runtime import parallel
from textsvm.runtime.device import Device
from textsvm.runtime.files import MappedFile
from textsvm.runtime.parallel import Lock, StageProgress, lap, of_stage
from textsvm.runtime.parameters import notebook_table, with_short_repr
from textsvm.sources.base import Expansion, Reader, Source, Support
from textsvm.text.pieces import Pieces, mean_of_pieces

if TYPE_CHECKING:
    from textsvm.model.settings import OnlineSettings, Settings
    from textsvm.solvers.solution import Solution


MOST_VALUES = 1 << 24  #: Decision values that `predict` holds at a time.


@with_short_repr
@dataclass(frozen=True, eq=False)
class Record:
    """How a model was trained."""

    #: Settings of the training; of a model from a file those that it stores. Of a calibrated model those of
    #: its classifier.
    settings: Settings | OnlineSettings
    #: Number of support vectors of each class, or of each machine (several labels).
    n_support: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    C: float | None = None  #: Penalty used
    loss: str = "hinge"  #: Loss function used
    chosen: str = ""  #: Kernel and C of "auto" and "fast" in a sentence
    solutions: tuple[Solution, ...] = ()  #: Of the solver, for each machine; a single one with Crammer-Singer
    unfinished: str = ""  #: Message about machines that did not converge; empty if all did
    seconds: Mapping[str, float] = field(default_factory=dict)  #: Wall time of "encode", "gram", "solve", ...
    gram: str = ""  #: Origin of the rows of the kernel matrix, or why there is no kernel matrix
    device: Device | None = None  #: Device of the training
    held_out_accuracy: float | None = None  #: Of the choice of the kernel, or of a calibration
    n_trials: int = 0  #: Trials of the choice of the kernel
    margin: float | None = None  #: Median out-of-fold margin of a calibrated model
    #: Digests of training texts, see `textsvm.sources.copies.sample_digests`; None without texts.
    texts: Words | None = None
    info: Json = field(default_factory=dict)  #: The `info` of `textsvm.save`
    digest: str | None = None  #: Checked digest of the model file; None without a file
    file: MappedFile | None = None  #: That the arrays are mapped from

    @property
    def n_iter(self) -> int:
        """Iterations of all machines."""
        return sum(solution.iterations for solution in self.solutions)


@with_short_repr
@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model; see the top of `textsvm.model.trained`.

    Attributes
    ----------
    reader : Reader
        Checks and encodes examples.
    predictor : Expansion
        Support vectors, kernel and coefficients, or weights of features.
    rule : Rule
        Decision rule: classes, strategy, offsets, calibration, thresholds.
    record : Record
        Settings and figures of the training, and the `info` of the model file.
    device : str
        Device for predictions, see `textsvm.SVC`.
    n_jobs : int, optional
        Threads; None or -1 uses all cores.
    pieces : Pieces, optional
        How texts are cut; the decision of a text is the mean of those of its pieces.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, TrainedModel, load, save
    >>> save(SVC(Spectrum(3)).fit(["win cash now", "lunch at noon"], ["spam", "ham"]), "spam.textsvm")
    >>> model: TrainedModel = load("spam.textsvm")
    >>> model.classes.tolist(), model.predict(["cash"]).tolist()
    (['ham', 'spam'], ['spam'])
    """

    reader: Reader
    predictor: Expansion
    rule: Rule
    record: Record
    device: str = "auto"
    n_jobs: int | None = None
    pieces: Pieces | None = None
    #: Wall time of the stages of all predictions so far: "check", "prepare", "encode", "predict", "decide".
    seconds: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    #: Predictor on `device`, empty until the first prediction.
    _prepared: list[Predictor] = field(default_factory=list, init=False, repr=False)
    #: Held while the predictor is prepared, so that threads prepare it once.
    _preparing: Lock = field(default_factory=Lock, init=False, repr=False)

    def _repr_html_(self) -> str:
        n = len(self.predictor.support.indices)
        tops = self.top_features(8) if n <= 5000 else []  # otherwise it takes long
        rows = [(top.label, top.kind, ", ".join(repr(x.text) for x in top.features)) for top in tops]
        return notebook_table(f"{self.estimator_name}: {self.kernel!r}, {n:,} support vectors", rows)

    @property
    def estimator_name(self) -> str:
        """Name of the estimator that trains such models: "SVC", "SVR", ..."""
        return self.rule.estimator

    @property
    def kernel(self) -> Kernel | None:
        """Fitted kernel; None with a precomputed kernel matrix."""
        return self.predictor.support.kernel

    @property
    def support(self) -> Support:
        """Support vectors and kernel."""
        return self.predictor.support

    @property
    def classes(self) -> AnyArray | None:
        """Sorted classes or labels, shape (n_classes,); None for numbers and novelty."""
        return self.rule.classes

    @property
    def info(self) -> Json:
        """The `info` of `textsvm.save`."""
        return self.record.info

    @property
    def source(self) -> Source:
        """The reader of a model of support vectors; InputError for an online model."""
        if not isinstance(self.reader, Source):
            raise InputError(f"a model of {self.estimator_name} has no support vectors to compare with")
        return self.reader

    @property
    def probabilities_by_default(self) -> bool:
        """Whether predictions are shown with probabilities by default: of a calibrated or an online model.

        Other models may have probabilities, too (`has_probabilities`), shown on request (`--proba`).
        """
        return isinstance(self.rule, CalibratedRule | ScaledRule)

    def encode(self, X: object, extending: bool = True) -> Any:
        """Examples, checked and encoded over an extension of the alphabet of the support vectors.

        Without `extending` they have an alphabet of their own.
        """
        support = self.support
        examples = self.source.validate(X, support.n_features)
        return self.source.encode(examples, support.documents if extending else None)

    def on(self, device: str, n_jobs: int | None = None) -> TrainedModel:
        """The same model with another device and number of threads."""
        return replace(self, device=device, n_jobs=n_jobs)

    @contextmanager
    def at_work(self, device: Device) -> Iterator[None]:
        """Limit the threads to `n_jobs` and make the device current; raise DamagedModel at a changed file."""
        with self.record.file or nullcontext(), parallel.limit(self.n_jobs), devices.use(device):
            yield

    def prepared(self, device_name: str | None = None) -> Predictor:
        """The machines prepared for prediction, on `device` by default.

        With another `device_name` they are prepared on that device, which later predictions use, too.
        """
        device_name = device_name or self.device
        if not self._prepared or device_name != self.device:
            with self._preparing:
                if not self._prepared or device_name != self.device:
                    device, clock = devices.select(device_name), time.perf_counter()
                    with self.at_work(device):
                        self._prepared[:] = [self.predictor.prepare(self.reader, device)]
                    lap(self.seconds, "prepare", clock)
        return self._prepared[0]

    @property
    def last_device(self) -> Device | None:
        """The device of the last prediction, else of the training; None for a loaded model before both."""
        return self._prepared[0].device if self._prepared else self.record.device

    @property
    def device_in_use(self) -> Device:
        """The device of the last prediction, else of the training, else the device of the next prediction."""
        return self.last_device or devices.select(self.device)

    def machine_values(self, X: object, progress: StageProgress | None = None) -> Floats:
        """Values of all machines, shape (n, n_machines), means over the pieces of texts that are cut.

        Texts are compared with support vectors only.
        """
        if self.pieces is None:
            return self.values_of_pieces(X, progress)
        clock = time.perf_counter()
        pieces, numbers = self.pieces.cut_all(self.reader.validate(X))
        lap(self.seconds, "check", clock)
        return mean_of_pieces(self.values_of_pieces(pieces, progress), numbers)

    def uncut(self, participle: str) -> TrainedModel:
        """The model; InputError if it cuts texts."""
        if self.pieces is not None:
            model = "dataclasses.replace(model, pieces=None) can, for pieces, model.pieces.cut(text)"
            raise InputError(f"a model that cuts texts (--chunk) cannot be {participle}; {model}")
        return self

    def values_of_pieces(self, X: object, progress: StageProgress | None = None) -> Floats:
        """Values of all machines, of texts that are not cut."""
        support, intercept = self.predictor.support, self.predictor.intercept
        clock, seconds = time.perf_counter(), self.seconds
        examples = self.reader.validate(X, support.n_features)
        lap(seconds, "check", clock)
        if self.predictor.constant:
            return np.tile(intercept, (len(examples), 1))

        def values_on(device_name: str) -> Floats:
            predictor, clock = self.prepared(device_name), time.perf_counter()
            # Values that overflow are reported below, by document.
            with self.at_work(predictor.device), np.errstate(over="ignore", invalid="ignore"):
                encoded = self.reader.encode_test(examples, support)
                clock = lap(seconds, "encode", clock)
                values = predictor.values(encoded, of_stage(progress, "predict")) + intercept
            lap(seconds, "predict", clock)
            return values

        values = devices.run_on(self.device, values_on)
        if not np.isfinite(values).all():
            i = int(np.isfinite(values).all(axis=1).argmin())
            raise InputError(
                f"document {i + 1:,} of those given has no finite decision value: its numbers, or those of "
                "the model, are too large for this kernel; scale them, or train it again"
            )
        return values

    def decision_function(self, X: object, progress: StageProgress | None = None) -> Floats:
        """Decision values of examples.

        Examples are compared with the support vectors only, in batches of bounded memory.

        Returns
        -------
        float64 array
            Two classes, shape (n,): positive is the second class, and support vectors on the margin have -1
            or 1. More, shape (n, n_classes): values of the classes, of which the largest wins. Regression,
            shape (n,): the predicted number. Novelty, shape (n,): negative outside.
        """
        values, clock = self.machine_values(X, progress), time.perf_counter()
        decision = self.rule.scores(values)
        lap(self.seconds, "decide", clock)
        return decision

    def predict(self, X: object, progress: StageProgress | None = None) -> Any:
        """Predict the class, the set of labels, or the number of each example; +1 or -1 for novelty.

        A calibrated model with a reject option predicts "unsure" for rejected examples.
        """
        most = max(1, MOST_VALUES // len(self.predictor.intercept))
        if not isinstance(X, list | np.ndarray) or len(X) <= most:
            return self.rule.to_target_type(self.rule.predictions(self.decision_function(X, progress)))
        parts = [X[first : first + most] for first in range(0, len(X), most)]
        predictions = [self.rule.predictions(self.decision_function(part, progress)) for part in parts]
        return self.rule.to_target_type(np.concatenate(predictions))

    def predict_proba(self, X: object, progress: StageProgress | None = None) -> Floats:
        """The probability of each class, shape (n, n_classes); rows sum to 1.

        Raises InputError if the model has no probabilities.
        """
        if not has_probabilities(self.rule):
            raise InputError(f"a model of {self.estimator_name} has no probabilities; train a CalibratedSVC")
        return self.rule.probabilities(self.decision_function(X, progress))

    def predict_set(self, X: object, coverage: float = 0.95, per_class: bool = False) -> Bools:
        """Prediction sets: classes of each text that include the true class with the probability `coverage`.

        The probability is above 0 and below 1, and holds on average over all texts, or for each class. The
        result has shape (n, n_classes), in the order of the classes, and at least one class per row.
        """
        return self.calibrated().conformity.sets(self.predict_proba(X), coverage, per_class)

    def predict_known(self, X: object, rejected: float = 0.05) -> Bools:
        """Whether each text is like a known class, shape (n,), by `score_samples`.

        At most this share of texts of the classes, above 0 and below 1, is rejected.
        """
        return self.calibrated().conformity.known(self.decision_function(X), rejected)

    def score_samples(self, X: object) -> Floats:
        """Similarity of each text to the known classes, or to the region of a one-class model, shape (n,).

        With classes it is the largest decision value, for novelty the decision value without the bias.
        InputError for other models.
        """
        if not isinstance(self.rule, ClassRule | NoveltyRule):
            raise InputError(f"a model of {self.estimator_name} has no similarity to known classes")
        decision = self.decision_function(X)
        if isinstance(self.rule, NoveltyRule):
            return decision - float(self.predictor.intercept[0])
        return largest(decision)

    def calibrated(self) -> CalibratedRule:
        """The rule of a calibrated model; InputError for other models."""
        if not isinstance(self.rule, CalibratedRule):
            raise InputError(f"a model of {self.estimator_name} is not calibrated; train a CalibratedSVC")
        return self.rule

    def top_features(self, n: int = 30, labels: Collection[object] | None = None) -> list[TopFeatures]:
        """The `n` features with the largest weights for each class or direction, or for each of `labels`.

        An element has `label`, `kind` ("substrings", "words", "numbers", "patterns" or "training documents")
        and `features`, which have `text`, `weight` and `merged`. A sum of kernels has one for each term.
        """
        with self.at_work(devices.select("cpu")):
            return top_features(self.predictor, self.rule, n, labels)

    def with_record(self, **facts: Any) -> TrainedModel:
        """The same model with other entries of its record."""
        return replace(self, record=replace(self.record, **facts))

    def __getstate__(self) -> Json:
        # A predictor holds device memory or large indexes; it is prepared again when needed.
        return {name: value for name, value in vars(self).items() if name not in ("_prepared", "_preparing")}

    def __setstate__(self, state: Json) -> None:
        vars(self).update(state, _prepared=[], _preparing=Lock())


def as_model(model: Any) -> TrainedModel:
    """The trained model of a fitted estimator; a trained model itself. InputError for other objects."""
    if isinstance(model, TrainedModel):
        return model
    if not is_ours(model):
        ways = {"best_estimator_": "best_estimator_", "steps": "last step, and what its other steps return"}
        remedy = "".join(f"; give its {way}" for name, way in ways.items() if hasattr(model, name))
        expected = "expected a model of textsvm, such as SVC or the result of load"
        raise InputError(f"{expected}, got {type(model).__name__}{remedy}")
    model.require_fitted()
    trained: TrainedModel = model.model_
    return trained


def is_ours(model: object) -> bool:
    """Whether an object is a trained model, or an estimator that holds a trained model."""
    return isinstance(model, TrainedModel) or hasattr(type(model), "require_fitted")
