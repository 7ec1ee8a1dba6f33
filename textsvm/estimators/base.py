"""Base class of the estimators: scikit-learn's parameters, tags, checks and HTML around a trained model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from textsvm.arrays import AnyArray, Floats
from textsvm.errors import InputError, warn_user
from textsvm.kernels.base import Kernel
from textsvm.kernels.inputs import TYPES, InputTable, is_table, require_numbers
from textsvm.model.rules import has_probabilities
from textsvm.model.settings import Compute, KernelLike, Settings, check_jobs, copied
from textsvm.model.top_features import TopFeatures, coefficients
from textsvm.model.trained import TrainedModel
from textsvm.runtime.device import is_on_gpu
from textsvm.runtime.parallel import StageProgress
from textsvm.runtime.parameters import ConstructorSignature, Parameters, checked_new
from textsvm.sources.matrix import MatrixSource, check_block
from textsvm.sources.vectors import VectorSource
from textsvm.training.grams import check
from textsvm.training.train import train

_REPEATED = re.compile(r":\s*array=.*\]\.\s*", re.DOTALL)  #: Array values in messages of scikit-learn.


def model_attribute(path: str) -> Any:
    """Fitted attribute that the trained model holds; AttributeError before `fit`."""
    read = attrgetter(path)

    def attribute(estimator: Any) -> Any:
        value = read(estimator.model_)
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False  # threads may share the model
        return value

    return property(attribute)


class KernelEstimator(BaseEstimator):
    """A scikit-learn estimator that holds a trained model in `model_`."""

    if not TYPE_CHECKING:  # type checkers read the constructor
        __new__ = checked_new
        __signature__ = ConstructorSignature()

    # A meta-estimator must not route `progress`.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}
    __metadata_request__predict: ClassVar[dict[str, str]] = {"progress": UNUSED}
    __metadata_request__decision_function: ClassVar[dict[str, str]] = {"progress": UNUSED}
    _settings: ClassVar[type[Settings]]
    _alternative: ClassVar[str] = ""  #: End of the error message of `predict_proba`: the alternative.

    model_: TrainedModel
    kernel_ = model_attribute("kernel")
    support_ = model_attribute("support.indices")
    support_documents_ = model_attribute("support.documents")
    weight_vectors_ = model_attribute("support.weights")
    dual_coef_ = model_attribute("predictor.dual_coef")
    intercept_ = model_attribute("predictor.intercept")
    n_support_ = model_attribute("record.n_support")
    solutions_ = model_attribute("record.solutions")
    n_iter_ = model_attribute("record.n_iter")
    gram_description_ = model_attribute("record.gram")
    seconds_ = model_attribute("record.seconds")
    info_ = model_attribute("record.info")
    device_ = model_attribute("device_in_use")

    @property
    def settings(self) -> Any:
        """Copies of the parameters, as `train` takes them."""
        names = [field.name for field in fields(self._settings)]  # a subclass may have other parameters
        return self._settings(**{name: copied(getattr(self, name)) for name in names})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` nested parameters as "name__parameter"."""
        return Parameters.get_params(self, deep)

    def set_params(self, **parameters: object) -> Self:
        """Set parameters, also nested (``kernel__p=3``); ValueError for an unknown parameter."""
        return Parameters.set_params(self, **parameters)

    def _default_of(self, name: str) -> Any:
        return Compute() if name == "compute" else None

    def require_fitted(self) -> None:
        """Raise scikit-learn's NotFittedError before `fit`."""
        check_is_fitted(self)

    def _fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, progress: StageProgress | None,
        groups: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        settings = self.settings
        source = settings.machine.source
        if isinstance(source, MatrixSource | VectorSource):
            check(settings)
            self._check_rows(X, source.unfitted if isinstance(source, VectorSource) else None)
        warn_of_column(y)
        return self._set_model(train(settings, X, y, sample_weight, progress, groups), X)

    def _check_rows(self, X: Any, kernel: Kernel | None) -> Any:
        """scikit-learn's check of vectors for a kernel, or of a precomputed kernel matrix."""
        if is_on_gpu(X):
            return X
        options = {} if kernel is None else {"accept_sparse": "csr", "dtype": TYPES}
        if kernel is not None:
            require_numbers(X)
        with _as_input_error():
            return check_array(X, ensure_all_finite=False, estimator=self, **options)

    def _set_model(self, model: TrainedModel, X: Any) -> Self:
        """Hold a trained model, and the number and names of the columns of its examples."""
        set_columns(self, X)
        if model.support.n_features is not None:
            with _as_input_error():
                validate_data(self, X, reset=True, skip_check_array=True)
        self.model_ = model
        if model.record.unfinished:
            warn_user(model.record.unfinished, ConvergenceWarning)
        return self

    def with_model(self, model: TrainedModel, X: Any) -> Self:
        """An estimator of the same class with a model that was trained on X, and the model's settings."""
        return type(self)(**model.record.settings.as_dict())._set_model(model, X)

    def _model_for(self, X: Any) -> TrainedModel:
        """The trained model on the present device, after a check of the columns of X."""
        self.require_fitted()
        if isinstance(self.model_.reader, MatrixSource | VectorSource):
            values = self._check_rows(X, self.model_.kernel)
            columns = self.model_.support.n_features
            if self.model_.kernel is None and values.ndim == 2 and values.shape[1] != columns:
                check_block(values, values.shape[1])  # a missing value is reported before the columns
        if self.model_.support.n_features is not None and "n_features_in_" in vars(self):
            with _as_input_error():
                validate_data(self, X, reset=False, skip_check_array=True)
        require_columns(self, X)
        settings = self._device_and_jobs()
        if (self.model_.device, self.model_.n_jobs) != settings:
            check_jobs(settings[1])
            self.model_ = self.model_.on(*settings)
        return self.model_

    def _device_and_jobs(self) -> tuple[str, int | None]:
        return self.device, self.n_jobs

    def decision_function(self, X: Any, progress: StageProgress | None = None) -> Floats:
        """Decision values of examples, see `textsvm.model.trained.TrainedModel.decision_function`."""
        return self._model_for(X).decision_function(X, progress)

    def predict(self, X: Any, progress: StageProgress | None = None) -> AnyArray:
        """Predict the class of each text, shape (n,); a calibrated model the most probable, or "unsure".

        Several labels have the form of the training labels: tuples, array or matrix.
        """
        predictions: AnyArray = self._model_for(X).predict(X, progress)
        return predictions

    @property
    def predict_proba(self) -> Any:
        """Probabilities if the training had out-of-fold values; else AttributeError names an alternative."""
        if self.__sklearn_is_fitted__() and has_probabilities(self.model_.rule):
            return lambda X, progress=None: self._model_for(X).predict_proba(X, progress)
        raise AttributeError(f"{type(self).__name__} has no probabilities; {self._alternative}")

    @property
    def coef_(self) -> Floats:
        """Weights of the features, shape (n_machines, n_features), as `get_feature_names_out` orders them.

        Only for kernels with a list of features (spectrum, linear, and sums of these); they refer to the
        features of texts as the kernel normalises them.
        """
        return coefficients(self.model_.predictor)[1]

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Names of the features of `coef_`; `input_features` is ignored."""
        return coefficients(self.model_.predictor)[0]

    def top_features(self, n: int = 30) -> list[TopFeatures]:
        """The `n` features with the largest weights for each class, see `TrainedModel.top_features`."""
        self.require_fitted()
        return self.model_.top_features(n)

    def __sklearn_is_fitted__(self) -> bool:
        # scikit-learn's default iterates over all attributes, which another thread may change.
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        self.settings.machine.source.tag(tags.input_tags)
        return tags


@dataclass(repr=False, eq=False)
class FixedKernelEstimator(KernelEstimator):
    """Parameters of the machines that choose no kernel by cross-validation; `textsvm.SVC` documents them."""

    kernel: KernelLike = "spectrum"
    _: KW_ONLY
    normalise: str = "unicode"
    punctuation: bool = True
    max_length: int | None = None
    tol: float = 1e-3
    duality_gap: float | None = None
    max_iter: int = -1
    device: str = "auto"
    n_jobs: int | None = None
    compute: Compute | None = None
    encoder: object = None


def set_columns(estimator: Any, X: object) -> None:
    """Set `n_features_in_` and `feature_names_in_` for a table, which no other examples have."""
    for name in {"n_features_in_", "feature_names_in_"} & set(vars(estimator)):
        delattr(estimator, name)
    if is_table(X):
        names = InputTable.of(X).names
        estimator.n_features_in_ = len(names)
        if all(isinstance(name, str) for name in names):
            estimator.feature_names_in_ = np.array(names, object)


def require_columns(estimator: Any, X: object) -> None:
    """Raise InputError for a table without the only column of the training; kernels require several."""
    if is_table(X) and len(names := vars(estimator).get("feature_names_in_", ())) == 1:
        InputTable.of(X).column(names[0])


@contextmanager
def _as_input_error() -> Iterator[None]:
    """Convert scikit-learn's ValueError to an InputError without array values."""
    try:
        yield
    except ValueError as error:
        raise InputError(_REPEATED.sub(". ", str(error))) from error


def warn_of_column(y: Any) -> None:
    """Warn, as scikit-learn does, if targets are a table of a single column."""
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected; take y.ravel()"
        warnings.warn(message, DataConversionWarning, stacklevel=4)
