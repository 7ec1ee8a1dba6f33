"""Train a model for a command, and judge it: the work of `textsvm train`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from textsvm.arrays import Json
from textsvm.cli import corpora, model_files
from textsvm.cli.console import Console
from textsvm.cli.model_files import AnySettings
from textsvm.errors import warn_user
from textsvm.evaluation import drift, estimate
from textsvm.evaluation.estimate import LengthBaseline, Verdict, truth_of
from textsvm.evaluation.results import Results
from textsvm.kernels import Kernel
from textsvm.model.settings import (
    ClassifierSettings,
    MultilabelSettings,
    NotConvergedWarning,
    NoveltySettings,
)
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import Corpus
from textsvm.training.train import train, with_scale

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
