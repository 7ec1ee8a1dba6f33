"""Train a model on old and new documents: the work of `textsvm update`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from textsvm.arrays import AnyArray, Json
from textsvm.cli import corpora, model_files, results
from textsvm.cli.console import Console
from textsvm.cli.model_files import RecordedOptions
from textsvm.cli.options import LearningOptions, ReadingOptions
from textsvm.cli.output import Output
from textsvm.errors import InputError, warn_user
from textsvm.evaluation import comparison, drift, judge
from textsvm.evaluation.estimate import LengthBaseline, groups_of, truth_of
from textsvm.model.file import save
from textsvm.model.rules import NumberRule
from textsvm.model.settings import NotConvergedWarning, OnlineSettings, RegressionSettings
from textsvm.model.trained import TrainedModel
from textsvm.readers.annotations import MAJORITY
from textsvm.readers.corpus import Corpus, concatenate_corpora
from textsvm.readers.corrections import CHANGE, UNSURE, corrected_again
from textsvm.readers.statistics import doubtful_labels, label_counts
from textsvm.selection.cross_validation import cross_validate
from textsvm.training.online import OnlineLearner
from textsvm.training.train import train, with_scale

#: Options of the reader that may differ between old and new documents.
COLUMNS = ("text", "label", "table", "level", "labels")
FOLDS = 5  #: Of the cross-validation of the new model


@dataclass(frozen=True)
class _Recorded:
    """Options of the training that the model records."""

    training: RecordedOptions
    facts: Json  #: The object "update" of the model's information
    reading: ReadingOptions
    learning: LearningOptions

    def with_columns(self, columns: Json, of_numbers: bool) -> _Recorded:
        """With columns that are named; `of_numbers`: the label is the number of a regression."""
        named, learning = {name: columns[name] for name in COLUMNS if name in columns}, self.learning
        if of_numbers:
            learning = replace(learning, regress=named.pop("label", learning.regress))
            if learning.regress is None:
                raise InputError("the model was saved in Python; name the column of its numbers with --label")
        return replace(self, reading=replace(self.reading, **named), learning=learning)


def _recorded(fitted: TrainedModel) -> _Recorded:
    """Options that a model records; InputError if they are damaged."""
    training, facts = RecordedOptions.of(fitted), _object(fitted.info, "update")
    named, separator = _object(fitted.info, "reading"), training.label_separator
    text = named.get("text")
    try:
        for labels in _object(facts, "corrections").values():
            if not (isinstance(labels, list) and {*map(type, labels)} <= {str, type(None)}):
                raise TypeError("corrections")
        reading = ReadingOptions(
            format=facts.get("format"), text=[text] if isinstance(text, str) else text,
            numbers=named.get("numbers"), label=named.get("label"), id=named.get("id"),
            table=table if isinstance(table := named.get("table"), list) else None,
            level=level if isinstance(level := named.get("level"), int) else None,
            headers=named.get("headers") is True, skip_invalid=facts.get("skip_invalid") is True,
            sheet=named.get("sheet"), encoding=named.get("encoding"),
            annotators=named.get("annotators", MAJORITY), groups=training.groups,
        )  # fmt: skip
        learning = LearningOptions(
            regress=training.regress, weights=facts.get("weights"), multilabel=separator is not None,
            label_separator=separator,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise InputError(f"the recorded options of a model are damaged ({error}); train it again") from error
    return _Recorded(training, facts, reading, learning)


def _object(info: Json, name: str) -> Json:
    """An object in the information of a model; {} for any other value."""
    value = info.get(name)
    return value if isinstance(value, dict) else {}


def update(
    console: Console, file: Output, fitted: TrainedModel, model: Path, new: list[Path],
    corpus: list[Path] | None, columns: Json,
) -> Json:  # fmt: skip
    """Train a model on its old and on new documents, save it, and report the changes.

    `columns` are options of the reader that are named for the new documents.
    """
    recorded = _recorded(fitted)
    if fitted.estimator_name == model_files.ONE_CLASS and recorded.training.positive is None:
        raise InputError(
            f"{model} was saved in Python and does not record the label of its class; train it again with "
            "`textsvm train --one-class --positive LABEL`"
        )
    with_columns = recorded.with_columns(columns, isinstance(fitted.rule, NumberRule))
    fresh = _as_trained(_read(console, new, with_columns, fitted, "new"), fitted, recorded.training)
    if fitted.estimator_name == model_files.ONLINE:
        console.warn(*doubtful_labels([*map(str, fitted.rule.classes), *label_counts(fresh)]))
        return _update_online(console, file, fitted, fresh)
    if not recorded.facts.get("corpora"):  # saved in Python: the names are for the old corpus, too
        recorded = with_columns
    old = _old_corpora(recorded.facts, corpus, model)
    entries = [*old, model_files.corpus_facts(fresh, new, new=True, **columns)]
    recorded = replace(recorded, facts={**recorded.facts, "corpora": entries})
    return _train_again(console, file, fitted, fresh, old, recorded)


def _old_corpora(recorded: Json, corpus: list[Path] | None, model: Path) -> list[Json]:
    """Old corpora: paths, part and digest (None: not checked)."""
    if corpus:
        return [{"paths": list(map(str, corpus)), "part": recorded.get("part"), "digest": None}]
    corpora = value if isinstance(value := recorded.get("corpora"), list) else []
    paths = [x.get("paths") if isinstance(x, dict) else None for x in corpora]
    if not paths or not all(isinstance(x, list) and x and {*map(type, x)} == {str} for x in paths):
        raise InputError(f"{model} records no corpus that can be read again; name it with --corpus")
    for path in (path for entry in corpora for path in entry["paths"]):
        if not (Path(path).is_file() or Path(path).is_dir()):
            trouble = "is neither a file nor a folder" if Path(path).exists() else "is not there"
            raise InputError(
                f"the corpus {Path(path).absolute()} that {model} was trained on {trouble}; name it with "
                "--corpus"
            )
    return corpora


def _read(console: Console, paths: list[Path], recorded: _Recorded, fitted: TrainedModel, age: str) -> Corpus:
    """Read old or new labelled documents for a fitted model, with the columns of its training."""
    name = fitted.estimator_name
    online, one_class = name == model_files.ONLINE, name == model_files.ONE_CLASS
    documents = corpora.read(
        console, paths, recorded.reading, recorded.learning,
        kernel=None if online else fitted.record.settings.as_dict()["kernel"],
        recorded=recorded.training.columns,
    )  # fmt: skip
    if documents.labels is None and documents.targets is None and not one_class:
        raise InputError(
            f"{documents.source} has no labels, and {age} documents need them; name a column with --label, "
            "or use a folder per class"
        )
    return documents


def _as_trained(corpus: Corpus, fitted: TrainedModel, training: RecordedOptions) -> Corpus:
    """Documents with the labels of a model that was trained with --positive or --one-class."""
    positive, negative = training.positive, training.negative
    if positive is None:
        corpora.targets(corpus, training.label_separator is not None)
        return corpus
    if fitted.estimator_name == model_files.ONE_CLASS:
        return corpora.of_one_class(corpus, positive)
    reduced = corpus.with_two_labels(positive, negative or "rest")
    if not len(reduced):
        raise InputError(f"{corpus.source} has no document of {positive!r} or {negative!r}")
    return reduced


def _train_again(
    console: Console, target: Output, fitted: TrainedModel, fresh: Corpus, old: list[Json],
    recorded: _Recorded,
) -> Json:  # fmt: skip
    """Train on old and new documents, save the model with the recorded facts, and report the changes."""
    training, learning = recorded.training, recorded.learning
    parts = _read_old(console, fitted, old, recorded)
    _report_copies(console, fresh, parts)
    n_old, old_labels = sum(map(len, parts)), {name for part in parts for name in label_counts(part)}
    source = f"{parts[0].source} and {fresh.source}"
    combined = trained = concatenate_corpora([*parts, fresh], source, fresh.format)
    console.warn(*doubtful_labels([*old_labels, *label_counts(fresh)]))
    one_class, own = fitted.estimator_name == model_files.ONE_CLASS, [True] * len(combined)
    if one_class:
        own = [label == training.positive for label in truth_of(combined)]
        trained = combined.subset([i for i, is_own in enumerate(own) if is_own])
    trained = trained if fitted.pieces is None else trained.cut(fitted.pieces)
    truth, of_numbers = truth_of(trained), trained.targets is not None
    single = not one_class and not of_numbers and not learning.multilabel
    settings, decision = model_files.settings_again(fitted, with_choice=single), None
    machine = settings.machine
    before: AnyArray | list[Any]
    after: AnyArray | list[Any] = [None] * len(fresh)
    with console.work(None):
        widened, examples = model_files.examples_for(fitted, fresh)
        before = judge.predict(widened, examples, [], training.positive, console.stage)[1]
        console.lap("predict")
        again = train(settings, trained.examples, truth, trained.weights, console.stage, trained.groups)
        again = replace(again, pieces=fitted.pieces)
        console.lap(again.record.seconds)
        if again.record.unfinished:
            warn_user(again.record.unfinished, NotConvergedWarning)
        try:
            with console.warnings("`textsvm cv` with "):
                if one_class:
                    after = judge.predict_one_class(
                        machine, again, combined, own, n_old, FOLDS, training.positive
                    )
                else:
                    result = cross_validate(
                        machine, trained.examples, truth, cv=FOLDS, groups=trained.groups,
                        sample_weight=trained.weights, progress=console.stage,
                    )  # fmt: skip
                    result, texts = results.on_texts(result, trained, again.rule), trained.first_pieces
                    after = result.predictions[n_old:]
                    decision = result.decision[result.tested > 0] if single else None
                    if single:
                        again = with_scale(again, result.decision, truth_of(texts), texts.weights)
        except InputError as error:
            console.say(f"note: no cross-validation: {error}")
        numbers = drift.record(
            again, len(trained), lambda rows: trained.subset(rows.tolist()).examples, decision,
            groups_of(trained),
        )  # fmt: skip
    console.lap("estimate")
    console.say_device(again.device_in_use)
    about = model_files.training_facts(again, trained) | {"holdout": None, "drift": numbers}
    if trained.targets is not None:
        baseline = LengthBaseline.fit(trained.examples, trained.targets)
        about |= {} if baseline is None else {"length_baseline": asdict(baseline)}
    about["update"] = recorded.facts
    reading = replace(recorded.reading, positive=training.positive, negative=training.negative)
    with console.warnings():
        with_texts = fitted.support.weights is None
        model_files.save_model(target, again, trained, reading, learning, about, with_texts)
    console.lap("save")
    if learning.multilabel:
        before, after = (
            [row if row is None else tuple(classes[row.astype(bool)]) for row in predicted]
            for predicted, classes in ((before, fitted.rule.classes), (after, again.rule.classes))
        )
    return comparison.changes(
        fresh, old_labels, before, after, machine.epsilon if isinstance(machine, RegressionSettings) else 0.0
    )


def _read_old(console: Console, fitted: TrainedModel, old: list[Json], recorded: _Recorded) -> list[Corpus]:
    """Read the old corpora; InputError if a corpus has changed."""
    training = recorded.training
    one_class = fitted.estimator_name == model_files.ONE_CLASS
    parts, corrections = [], _object(recorded.facts, "corrections")
    for entry in old:
        # Documents of earlier updates were reduced to two labels, and not corrected, after they were read.
        added = entry.get("new") is True
        columns, paths = _object(entry, "columns"), list(map(Path, entry["paths"]))
        named = recorded.with_columns(columns, isinstance(fitted.rule, NumberRule))
        reading = replace(named.reading, part=entry.get("part"))
        if not added and not one_class:
            reading = replace(reading, positive=training.positive, negative=training.negative)
        part = _read(console, paths, replace(named, reading=reading), fitted, "old")
        if corrections and not added:
            part, counts, missing = corrected_again(part, corrections)
            absent = f", not in the corpus {missing:,}" if missing else ""
            console.say(
                f"note: {part.source}: corrections of the training: labels changed {counts[CHANGE]:,}, "
                f"documents left out {counts[UNSURE]:,}{absent}"
            )
        part = _as_trained(part, fitted, training) if added else part
        if entry.get("digest") not in (None, model_files.corpus_digest(part)):
            raise InputError(
                f"{part.source} has changed since the training; name it with --corpus to train on it "
                "as it is now"
            )
        parts.append(_as_trained(part, fitted, training) if one_class else part)
    return parts


def _report_copies(console: Console, fresh: Corpus, parts: list[Corpus]) -> None:
    """Report new documents that are in the old corpora; InputError if nearly all are."""
    if not len(fresh.texts):
        return  # equal vectors need not be copies
    documents = {
        pair for part in parts for pair in zip(part.digests(), part.targets or part.labels or (), strict=True)
    }
    old_digests, digests = {digest for digest, _ in documents}, list(fresh.digests())
    count = sum(digest in old_digests for digest in digests)
    same = sum(map(documents.__contains__, zip(digests, fresh.targets or fresh.labels or (), strict=True)))
    if count >= 0.9 * len(fresh) and same >= count / 2:
        raise InputError(
            f"{count:,} of {len(fresh):,} documents of {fresh.source} are in the training corpus already; "
            "give only documents that the model has not learnt"
        )
    if count:
        console.say(
            f"note: {count:,} of the {len(fresh):,} new documents are in the training corpus already and "
            "count twice; leave them out"
        )


def _update_online(console: Console, target: Output, fitted: TrainedModel, fresh: Corpus) -> Json:
    """Teach an OnlineSVC new documents, save it, and report the changes."""
    if fresh.columns is not None:
        raise InputError("an OnlineSVC reads a single column of texts; name it with the column `text`")
    info, texts = dict(fitted.info), list(fresh.texts)
    settings, labels_before = fitted.record.settings, fitted.rule.classes.tolist()
    assert isinstance(settings, OnlineSettings)
    before, classes = fitted.predict(texts), {str(label): label for label in labels_before}
    kind = type(labels_before[0])
    try:
        names = map(str, fresh.labels or [])
        labels = [classes[name] if name in classes or kind is bool else kind(name) for name in names]
    except (KeyError, ValueError) as error:
        raise InputError(f"{fresh.source}: a label is not of the type of the classes: {error}") from error
    learner = OnlineLearner(settings, fitted)
    learner.add_classes(sorted(set(labels)))
    learner.partial_fit(texts, labels)
    after: AnyArray | list[Any] = [None] * len(texts)
    if settings.max_texts is None:
        after = learner.plain_rule.predictions(learner.left_out()[0][-len(texts) :])
    console.lap("solve")
    with target.place() as path:
        save(learner.model(), path, info)
    console.lap("save")
    return comparison.changes(fresh, set(classes), before, after)
