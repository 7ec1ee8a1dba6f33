"""Models of commands: their files, the facts of their training, and the work of `textsvm train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from textsvm.arrays import Json
from textsvm.cli import corpora, model_files
from textsvm.cli.console import Console
from textsvm.cli.corpora import require_kind
from textsvm.cli.options import LearningOptions, ReadingOptions
from textsvm.cli.output import Output
from textsvm.errors import InputError, warn_user
from textsvm.evaluation import drift, estimate
from textsvm.evaluation.estimate import LengthBaseline, Verdict, truth_of
from textsvm.evaluation.judge import judge as judge_examples
from textsvm.evaluation.results import Results
from textsvm.kernels import Kernel, spelling
from textsvm.linalg.vectors import Vectors
from textsvm.model.file import first_prediction, load, save
from textsvm.model.rules import CalibratedRule, LabelRule, NumberRule
from textsvm.model.settings import (
    CalibrationSettings,
    ClassifierSettings,
    MultilabelSettings,
    NotConvergedWarning,
    NoveltySettings,
    Settings,
)
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import DECIMAL, FIRST_INDEX, VECTORS, Corpus
from textsvm.readers.statistics import label_counts
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parallel import StageProgress
from textsvm.sources.base import FirstPrediction
from textsvm.training.train import train, with_scale

AnySettings: TypeAlias = Settings | CalibrationSettings  #: Settings of a training, also with calibration.
ONLINE, ONE_CLASS = "OnlineSVC", "OneClassSVM"
#: Facts that depend on the computer, which model files do not hold.
_OF_THE_RUN = ("seconds", "kernel_matrix")


@dataclass(frozen=True)
class RecordedOptions:
    """Training options in a model file that later commands repeat."""

    positive: str | None = None
    negative: str | None = None
    headers: bool = False
    regress: str | None = None
    label_separator: str | None = None
    groups: str | None = None
    of_files: bool = False  #: Whether each text was a file
    columns: dict[str, str] = field(default_factory=dict)  #: Columns of the training table, by role

    @classmethod
    def of(cls, model: TrainedModel) -> RecordedOptions:
        """Options of a model; values of wrong type in its file are ignored."""
        info, reading = model.info, model.info.get("reading")
        names = ("positive", "negative", "regress", "label_separator", "groups")
        strings = {name: value for name in names if isinstance(value := info.get(name), str)}
        if isinstance(model.rule, LabelRule):
            strings.setdefault("label_separator", ";")  # saved in Python
        reading = reading if isinstance(reading, dict) else {}
        detected = value if isinstance(value := reading.get("detected"), dict) else {}
        named = {role: reading.get(role) or detected.get(role) for role in ("text", "label", "id")}
        named[FIRST_INDEX] = detected.get(FIRST_INDEX, "1") if reading else None
        named[DECIMAL] = detected.get(DECIMAL)
        columns = {role: column for role, column in named.items() if isinstance(column, str)}
        of_files = info.get("format") in ("folders", "file")
        return cls(**strings, headers=reading.get("headers") is True, of_files=of_files, columns=columns)


def predicts(model: TrainedModel) -> str:
    """Kind of the predictions of a model."""
    if isinstance(model.rule, LabelRule):
        return "several labels"
    return "numbers" if isinstance(model.rule, NumberRule) else "labels"


def load_model(console: Console, path: Path, device: str, online: bool = False) -> TrainedModel:
    """Load a model for use on a device; InputError for an OnlineSVC unless the command takes them."""
    model = load(path)
    if not online and model.estimator_name == ONLINE:
        raise InputError(f"{path} is an OnlineSVC model, which only predict, update and model read")
    return model.on(device)


def settings_again(model: TrainedModel, with_choice: bool) -> AnySettings:
    """Settings to train a model again, with the C and loss used by a classifier if `with_choice`."""
    record, rule = model.record, model.rule
    assert isinstance(record.settings, Settings)
    settings = replace(record.settings, device=model.device)
    if with_choice and isinstance(settings, ClassifierSettings) and record.C is not None:
        settings = replace(settings, C=record.C, loss=record.loss)
    if isinstance(rule, CalibratedRule) and isinstance(settings, ClassifierSettings):
        return CalibrationSettings(settings, rule.method, reject=rule.reject)
    return settings


def save_model(
    output: Output, model: TrainedModel, corpus: Corpus, reading: ReadingOptions, learning: LearningOptions,
    about: Json, texts: bool = True,
) -> tuple[int, FirstPrediction | None]:  # fmt: skip
    """Save a model with the facts of its training; returns the size in bytes and the cost of a prediction.

    `corpus` is the training corpus, from which the ids of the support vectors are taken.
    """
    classes = () if model.classes is None else model.classes
    opposite = next((str(label) for label in classes if label != reading.positive), "rest")
    labels = {"positive": reading.positive, "negative": reading.negative or opposite}
    ids = [corpus.ids[i] for i in model.support.indices] if texts else None
    info = {
        "corpus": corpus.source, "support_ids": ids,
        "format": corpus.format, "part": reading.part,
        "reading": reading.as_dict() | ({"detected": corpus.detected} if corpus.detected else {}),
        "regress": learning.regress,
        "label_separator": corpus.reading.get("label_separator", learning.separator),
        **({"groups": reading.groups} if reading.groups else {}),
        **(labels if reading.positive else {}), **about,
    }  # fmt: skip
    with output.place() as path:
        save(model, path, without_run(info), texts)
        return path.stat().st_size, first_prediction(model, path) if texts else None


def corpus_digest(corpus: Corpus) -> str:
    """BLAKE2b hash of the texts and labels of a corpus."""
    hashed = blake2b(digest_size=16)
    columns = [*corpus.text_columns[:1], *(corpus.columns or {}).values()]  # first twice, as in old models
    columns += [corpus.labels or [], corpus.targets or []]
    for value in (value for column in columns for value in column):
        hashed.update(str(value).encode("utf-8", "surrogatepass") + b"\0")
    return hashed.hexdigest()


def corpus_facts(
    corpus: Corpus, paths: Sequence[Path], part: str | None = None, new: bool = False, **columns: Any
) -> Json:
    """Facts for `textsvm update`; `new` documents were added by it, from `columns` if these were named."""
    facts = {"paths": list(map(str, paths)), "part": part, "digest": corpus_digest(corpus), "new": new}
    return facts | ({"columns": columns} if columns else {})


def update_facts(
    corpus: Corpus, paths: Sequence[Path], reading: ReadingOptions, learning: LearningOptions
) -> Json:
    """Corpus and options with which `textsvm update` trains again; no corpus with vectors beside it."""
    labels: Json = {} if reading.labels is None else {"labels": str(reading.labels)}
    return {
        "corpora": [corpus_facts(corpus, paths, reading.part, **labels)] * (reading.vectors is None),
        "format": reading.format, "part": reading.part, "skip_invalid": reading.skip_invalid,
        "weights": learning.weights,
        **({"corrections": corpus.corrections} if corpus.corrections else {}),
    }  # fmt: skip


def training_facts(model: TrainedModel, training: Corpus) -> Json:
    """Facts of a training run, for --json and the model file."""
    record, kernel = model.record, model.kernel
    assert kernel is not None
    assert record.device is not None
    solutions = record.solutions
    C = record.settings.as_dict().get("C") if record.C is None else record.C
    classes: list[Json] = []
    if training.targets is None:
        counts = label_counts(training)
        names = list(counts) if model.classes is None else model.classes
        classes = [
            {"class": str(name), "documents": counts[str(name)], "support_vectors": int(support)}
            for name, support in zip(names, record.n_support, strict=True)
        ]
    return {
        "estimator": model.estimator_name, "device": record.device.description,
        "kernel": kernel.structure.as_dict(), "kernel_spelled": spelling.spell(kernel),
        "chosen": record.chosen or None, "C": C, **({} if record.C is None else {"loss": record.loss}),
        "kernel_matrix": record.gram, "n_train": len(training), "classes": classes,
        "n_support": len(model.support.indices), "machines": len(solutions), "iterations": record.n_iter,
        "converged": all(solution.converged for solution in solutions),
        "status": "; ".join(dict.fromkeys(s.status for s in solutions if not s.converged)) or "converged",
        "objective": sum(solution.objective for solution in solutions),
        "duality_gap": max(solution.duality_gap for solution in solutions),
    }  # fmt: skip


def without_run(value: object) -> Any:
    """JSON value without times, number of threads and place of the kernel matrix.

    So the same command writes the same bytes, whatever the number of cores and the free memory.
    """
    if isinstance(value, dict):
        rest = {name: without_run(item) for name, item in value.items() if name not in _OF_THE_RUN}
        return rest | ({"device": "cpu"} if str(rest.get("device")).startswith("cpu ") else {})
    return [without_run(item) for item in value] if isinstance(value, list | tuple) else value


def examples_for(model: TrainedModel, corpus: Corpus) -> tuple[TrainedModel, Any]:
    """Documents of a corpus as a model takes them, and the model.

    Sparse vectors get as many columns as the model has, or the model as many as they have.
    """
    examples, kernel = corpus.examples, model.kernel
    if kernel is not None:
        require_kind(kernel.structure.examples, "the model", corpus)
    if corpus.vectors is None:
        return model, examples
    if isinstance(examples, dict):
        if kernel is None or not scipy.sparse.issparse(examples[VECTORS]):
            return model, examples
        documents = model.support.documents
        widths = [
            documents.of(view).n_features for view in kernel.structure.views if view.column == (VECTORS,)
        ]
        return model, {**examples, VECTORS: _widened(examples[VECTORS], max(widths, default=0))}
    support = model.support
    if not isinstance(support.documents, Vectors) or not scipy.sparse.issparse(examples):
        return model, examples
    if examples.shape[1] > support.documents.n_features and support.documents.sparse:
        wider = Vectors(_widened(support.documents.values, examples.shape[1]))
        support = replace(support, documents=wider, n_features=examples.shape[1])
        model = replace(model, predictor=replace(model.predictor, support=support))
    return model, _widened(examples, support.documents.n_features)


def _widened(vectors: Any, width: int) -> Any:
    """A sparse matrix with columns of zeros appended up to `width` columns."""
    if vectors.shape[1] >= width:
        return vectors
    vectors = vectors.copy()
    vectors.resize(vectors.shape[0], width)
    return vectors


def judge(
    model: TrainedModel, corpus: Corpus, positive: str | None, progress: StageProgress,
    baseline: LengthBaseline | None = None,
) -> Results:  # fmt: skip
    """Predict a labelled corpus and compute metrics, with `positive` as the positive class.

    `baseline`: predictions from lengths, for regression (default: the baseline in the model file).
    """
    (model, examples), truth = examples_for(model, corpus), truth_of(corpus)
    results = judge_examples(model, examples, truth, positive, progress)
    baseline = baseline or LengthBaseline.of(model.info)
    if baseline is None or results.task != "regression":
        return results
    return replace(results, length_alone=baseline.judge(corpus.examples, truth))


# Training


GOOD = 0.95  #: Accuracy that needs no improvement.


@dataclass(frozen=True)
class Outcome:
    """A model, and the measurements on its training."""

    model: TrainedModel
    facts: Json  #: About the training, for --json and the model file
    saved: Json  #: Further facts for the model file
    results: Results | None  #: On the held-out documents
    verdict: Verdict | None
    untested: str  #: Why memory or time do not suffice for an estimate


def fit(
    console: Console, settings: AnySettings, training: Corpus, test: Corpus | None, positive: str | None,
    of_labelling: bool,
) -> Outcome:  # fmt: skip
    """Train a model, and measure it on held-out documents or by a quick cross-validation.

    `of_labelling`: `textsvm label` chose the texts. `training` may be cut, `test` is not.
    """
    baseline, truth = None, truth_of(training)
    if training.targets is not None:
        baseline = LengthBaseline.fit(training.examples, training.targets)
    console.lap("estimate")
    model = train(settings, training.examples, truth, training.weights, console.stage, training.groups)
    took = sum(model.record.seconds.get(stage, 0.0) for stage in ("features", "gram", "solve"))
    if took >= 1:
        console.say(f"kernel matrix: {model.record.gram}; took {took:,.1f} s")
    console.lap(model.record.seconds)
    if model.record.unfinished:
        warn_user(model.record.unfinished, NotConvergedWarning)
    predictions, untested = estimate.estimate_quality(settings, model, training, with_folds=test is None)
    if predictions is not None and not predictions.part:
        tested = predictions.indices.tolist()
        weights = None if training.weights is None else [training.weights[i] for i in tested]
        model = with_scale(model, predictions.decision, [truth[i] for i in tested], weights)
    saved: Json = {
        "drift": drift.record(
            model, len(training), lambda index: training.subset(index.tolist()).examples,
            predictions.decision if predictions and isinstance(settings, ClassifierSettings) else None,
            estimate.groups_of(training),
        )
    }  # fmt: skip
    if baseline is not None:
        saved["length_baseline"] = asdict(baseline)
    model = replace(model, pieces=training.pieces)
    facts = model_files.training_facts(model, training) | {"holdout": None, "estimate": None}
    judged = verdict = None
    if test is None:
        verdict = estimate.verdict_of(model, training, predictions)
    else:
        judged = model_files.judge(model, test, positive, console.stage, baseline=baseline)
        tested = test if training.pieces is None else test.cut(training.pieces)
        near = corpora.held_out_near_duplicates(console, model, training, tested)
        facts["holdout"] = judged.as_dict() | {"near_duplicates": near}
        truth = truth_of(training.first_pieces)
        verdict = estimate.verdict_on(judged.metrics, truth, truth_of(test), f"{judged.n:,} documents")
        verdict = replace(verdict, distinct=estimate.share_distinct(training), grouped=bool(training.groups))
    if verdict is not None and of_labelling:
        where = f"{verdict.where} of texts chosen by `textsvm label`, difficult ones first"
        verdict = replace(verdict, where=where)
    if verdict is not None and test is None:
        facts["estimate"] = verdict.as_dict()
    console.lap("estimate")
    return Outcome(model, facts, saved, judged, verdict, untested)


def last_line(settings: AnySettings, training: Corpus, outcome: Outcome, doubtful: bool) -> str:
    """The line: the quality of the model, and the next step; `doubtful`: a warning names labels."""
    verdict = outcome.verdict
    if doubtful:
        step = "next: check the labels that the warning names, for the figures depend on them"
        return step if verdict is None else f"{verdict.sentence}; {step}"
    if verdict is not None:
        return f"{verdict.sentence}; next: {_next_step(settings, verdict)}"
    if isinstance(settings, NoveltySettings):
        return "next: `textsvm evaluate` on labelled documents tells how good the model is"
    several = estimate.of_several_texts(truth_of(training), estimate.copies_of(training))
    if isinstance(settings, ClassifierSettings) and not several:
        return "not tested, for no class has two different texts; next: add documents to the classes"
    why = f"not tested: {outcome.untested}; " if outcome.untested else ""
    return f"{why}next: `textsvm cv` with the same options tells how good the model is on new documents"


def _next_step(settings: AnySettings, verdict: Verdict) -> str:
    if verdict.part:
        return "`textsvm cv` with the same options tells how good the model of all documents is"
    kernel = settings.machine.kernel
    if not verdict.better:
        if verdict.metric != "mae" and verdict.constant >= 0.9:  # accuracy says little
            return f"`textsvm cv` shows macro F1, for nearly all labels are {verdict.answer}; add others"
        ahead = verdict.value - verdict.constant
        if verdict.metric == "mae":
            ahead = -ahead
        if ahead > 0:
            return "this may be chance, so add documents, or check the columns and labels (`textsvm corpus`)"
        return "this is no better, so check the columns and labels (`textsvm corpus`), or add documents"
    if verdict.metric != "mae" and verdict.value >= GOOD:
        if isinstance(kernel, Kernel) and kernel.structure.examples == "vectors":
            return "`textsvm predict MODEL FILE` classifies new documents"
        return "`textsvm explain MODEL --top 30` shows what the model looks at"
    if kernel == "fast" and not isinstance(settings, MultilabelSettings):  # several labels have no choice
        return "without --kernel fast a kernel is chosen for these documents"
    if kernel != "auto":
        return "`textsvm tune` tries other kernels and values of C"
    return "`textsvm doubts` lists wrong labels, `textsvm cv --learning-curve` tells if more documents help"
