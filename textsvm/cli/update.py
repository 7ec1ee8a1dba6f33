"""textsvm update: a model and new labelled documents -> the model trained on old and new documents."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option, option_field
from textsvm.cli.output import MODEL, Force, Output
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.model_files import Training
    from textsvm.readers.corpus import Corpus

#: Maximum number of changed predictions to print.
_SHOWN = 20


@dataclass(frozen=True)
class _Recorded:
    """Options of the training that the model records, and the paths of the new corpus."""

    training: Training
    new: list[Path]
    columns: dict[str, Any]  #: Columns of the new corpus that were named
    facts: dict[str, Any]  #: The object "update" of the model's information
    reading: options.ReadingOptions
    learning: options.LearningOptions


@dataclass(frozen=True)
class Corpora:
    """The old corpus, and columns of the new documents."""

    corpus: list[Path] | None = option_field(
        "Old corpus, repeatable (default: the corpus recorded in the model, if it is unchanged).",
        metavar="PATH",
    )
    text: options.Text = None
    label: str | None = option_field("Tables: label column of the new documents.")


@dataclass(frozen=True)
class UpdatedModel:
    """The model file to write."""

    output: Path | None = option_field("Model file to write (default: MODEL is replaced).", "--output", "-o")
    force: Force = False


@options.with_groups
def update(
    model: options.ModelPath,
    new: Annotated[
        list[Path],
        typer.Argument(help="New labelled documents, like the corpus.", show_default=False),
    ],
    printing: options.PrintingOptions,
    source: Corpora,
    file: UpdatedModel,
    folds: Annotated[int, option("Folds of the cross-validation.", min=2)] = 5,
    device: options.Device = "auto",
) -> None:
    """Train a model on its old and on new documents, with its recorded options, and report the changes.

    textsvm update spam.textsvm corrected.csv

    Kernel and C stay as they are. The new documents are predicted by the old model, and by cross-validation
    of the new model: no prediction comes from a machine that was trained on the document. An OnlineSVC model
    goes on learning and needs no old corpus; its predictions after the update are leave-one-out estimates.
    """
    console = Console(printing.quiet)
    corpus, output = source.corpus, file.output
    # Without -o, the loading below reports a MODEL that is no model.
    named = Output("-o" if output else "MODEL", output or model, MODEL, file.force or output is None)
    target = named.checked({"the corpus": [*new, *(corpus or [])]})

    from textsvm.cli import corpora, model_files

    fitted = model_files.load_model(console, model, device, online=True)
    training = model_files.Training.of(fitted)
    info = dict(fitted.info_)
    online = fitted.estimator_name == "OnlineSVC"
    if online and corpus:
        raise WrongUsage(f"--corpus: {model} is an OnlineSVC, which holds its old texts; leave it out")
    recorded = _recorded(fitted, training)
    reading, learning = recorded.reading, recorded.learning
    given = {"text": source.text, "label": source.label}
    columns: dict[str, Any] = {name: each for name, each in given.items() if each}
    fresh = corpora.read_again(console, new, replace(reading, **columns), learning, fitted, training, "new")
    fresh = corpora.as_trained(fresh, fitted, training)
    if not recorded.facts.get("corpora"):  # saved in Python: the names are for the old corpus, too
        reading = replace(reading, **columns)
    if online:
        if fresh.columns is not None:
            raise InputError("an OnlineSVC reads a single column of texts; name it with the column `text`")
        report = _update_online(fitted, fresh)
        with target.place() as path:
            from textsvm.model.file import save

            save(fitted, path, info)
    else:
        report = _train_again(
            console, target, fitted, fresh, _old_corpora(recorded.facts, corpus, model), folds,
            replace(recorded, new=new, columns=columns, reading=reading),
        )  # fmt: skip
    report = {"model": str(target.path), **report}
    console.print_json(report) if printing.json else _show(console, report)


def _recorded(fitted: Any, training: Training) -> _Recorded:
    """Options that a model records; InputError if they are damaged."""
    facts = _object(fitted.info_, "update")
    try:
        reading, learning = _options(_object(fitted.info_, "reading"), facts, training)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the options that the model records are damaged ({error}); train it again"
        ) from error
    return _Recorded(training, [], {}, facts, reading, learning)


def training_corpus(
    console: Console, fitted: Any, training: Training, corpus: list[Path] | None, model: Path
) -> Corpus:
    """The training documents of a model: of `corpus`, or of the recorded corpora if these are unchanged."""
    from textsvm.readers.corpus import concatenate_corpora

    recorded = _recorded(fitted, training)
    old, entries = _old_corpora(recorded.facts, corpus, model), recorded.facts.get("corpora")
    if corpus and isinstance(entries, list) and len(entries) == 1 and _is_usable(entries[0]):
        old[0]["digest of the training"] = entries[0].get("digest")
    parts = _read_old(console, fitted, old, recorded)
    return concatenate_corpora(parts, parts[0].source, parts[0].format)


def adapt(console: Console, fitted: Any, known: Corpus, documents: list[str], target: Output | None) -> Any:
    """A model adapted to new documents, if the gate accepts; saved to `target`."""
    from textsvm.cli import corpora
    from textsvm.model.file import save

    with console.work(None):
        adapted = fitted.adapt(known.examples, corpora.truth(known), documents, known.weights, console.stage)
    adapted.info_ = {**fitted.info_, "adaptation": asdict(adapted.adaptation_)}
    console.say(f"gate: {adapted.adaptation_}")
    if target is not None:
        with target.place() as path:
            save(adapted, path, adapted.info_, texts=fitted.weight_vectors_ is None)
        console.say(f"saved {target.path}" + " with the unadapted model" * (not adapted.adaptation_.adapted))
    return adapted


def _object(info: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in the information of a model; {} for any other value."""
    value = info.get(name)
    return value if isinstance(value, dict) else {}


def _options(
    given: dict[str, Any], recorded: dict[str, Any], training: Training
) -> tuple[options.ReadingOptions, options.LearningOptions]:
    """Reading and learning options that are recorded in a model."""
    text, corrections = given.get("text"), _object(recorded, "corrections").values()
    if not all(isinstance(each, list) and {*map(type, each)} <= {str, type(None)} for each in corrections):
        raise TypeError("corrections")
    names = ("numbers", "label", "id")
    reading = options.ReadingOptions(
        positive=None,
        format=recorded.get("format"),
        text=[text] if isinstance(text, str) else text,
        **{name: given.get(name) for name in names},
        headers=given.get("headers") is True,
        split=options.Split(given.get("split", "modapte")),
        skip_invalid=recorded.get("skip_invalid") is True,
    )
    separator = training.label_separator
    return reading, options.LearningOptions(
        regress=training.regress, weights=recorded.get("weights"), multilabel=separator is not None,
        label_separator=separator, duplicates=options.Duplicates(recorded.get("duplicates", "keep")),
    )  # fmt: skip


def _old_corpora(recorded: dict[str, Any], corpus: list[Path] | None, model: Path) -> list[dict[str, Any]]:
    """Old corpora: paths, part and digest (None: not checked)."""
    if corpus:
        return [{"paths": list(map(str, corpus)), "part": recorded.get("part"), "digest": None}]
    corpora = recorded.get("corpora")
    if not (isinstance(corpora, list) and corpora and all(map(_is_usable, corpora))):
        raise InputError(f"{model} records no corpus that can be read again; name it with --corpus")
    for path in (path for each in corpora for path in each["paths"]):
        if not Path(path).exists():
            raise InputError(
                f"the corpus {Path(path).absolute()} that {model} was trained on is not there; name it with "
                "--corpus"
            )
    return corpora


def _is_usable(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("paths"), list) and bool(entry["paths"])


def _train_again(
    console: Console,
    target: Output,
    fitted: Any,
    fresh: Corpus,
    old: list[dict[str, Any]],
    folds: int,
    recorded: _Recorded,
) -> dict[str, Any]:
    """Train on old and new documents, save the model, and report the changes."""
    from textsvm.cli import corpora, model_files
    from textsvm.evaluation import drift, judge, length_baseline
    from textsvm.readers.corpus import concatenate_corpora
    from textsvm.selection.cross_validation import cross_validate

    training, reading, learning = recorded.training, recorded.reading, recorded.learning
    one_class = fitted.estimator_name == corpora.ONE_CLASS
    named = replace(reading, positive=training.positive, negative=training.negative)
    parts = _read_old(console, fitted, old, recorded)
    _report_known(console, fresh, parts)
    if "adaptation" in fitted.info_:
        console.warn("the adaptation of the model is not repeated: adapt the updated model (predict --adapt)")
    n_old, old_labels = sum(map(len, parts)), {name for part in parts for name in corpora.label_counts(part)}
    combined = concatenate_corpora([*parts, fresh], f"{parts[0].source} and {fresh.source}", fresh.format)
    own = [not one_class or label == training.positive for label in corpora.truth(combined)]
    trained = combined.subset([i for i, each in enumerate(own) if each]) if one_class else combined
    truth, single = corpora.truth(trained), not one_class and not trained.targets and not learning.multilabel
    machine = judge.fitted_machine(fitted).copy()
    if single:
        machine.C, machine.loss = judge.fitted_machine(fitted).C_, judge.fitted_machine(fitted).loss_
    again, texts = machine, judge.fitted_machine(fitted).weight_vectors_ is None
    if hasattr(fitted, "estimator_"):
        again = fitted.copy()
        again.estimator = machine
    with console.work(None):
        given = corpora.given_to(fitted, fresh)
        before: Any = judge.predict(fitted, given, [], training.positive, console.stage)[1]
        after: Any = [None] * len(fresh)
        again.fit(trained.examples, truth, sample_weight=trained.weights, progress=console.stage)
        try:
            with console.warnings("`textsvm cv` with "):
                decision = None
                if one_class:
                    after = judge.predict_one_class(again, combined, own, n_old, folds, training.positive)
                else:
                    result = cross_validate(
                        machine.copy(), trained.examples, truth,
                        cv=folds, sample_weight=trained.weights, progress=console.stage,
                    )  # fmt: skip
                    after = result.predictions[n_old:]
                    decision = result.decision[result.tested > 0] if single else None
        except InputError as error:
            console.say(f"note: no cross-validation: {error}")
        numbers = drift.record(
            again, len(trained), lambda index: trained.subset(index.tolist()).examples, decision
        )
    console.say_device(again.device_)
    corpora_facts = [*old, model_files.corpus_facts(fresh, recorded.new, new=True, **recorded.columns)]
    update_facts = {**recorded.facts, "corpora": corpora_facts}
    about = model_files.training_facts(again, trained) | {"holdout": None, "drift": numbers}
    if trained.targets is not None:
        baseline = length_baseline.LengthBaseline.fit(trained.examples, trained.targets)
        about |= {} if baseline is None else {"length_baseline": asdict(baseline)}
    with console.warnings():
        model_files.save_model(
            target, again, trained, named, learning, about | {"update": update_facts}, texts
        )
    if learning.multilabel:
        before, after = (
            [each if each is None else tuple(classes[each.astype(bool)]) for each in predicted]
            for predicted, classes in ((before, fitted.classes_), (after, again.classes_))
        )
    return _changes(fresh, sorted(old_labels), list(before), list(after), getattr(machine, "epsilon", 0.0))


def _read_old(console: Console, fitted: Any, old: list[dict[str, Any]], recorded: _Recorded) -> list[Corpus]:
    """Read the old corpora; InputError if one has changed."""
    from textsvm.cli import corpora, model_files

    training, reading, learning = recorded.training, recorded.reading, recorded.learning
    one_class = fitted.estimator_name == corpora.ONE_CLASS
    parts, corrections = [], _object(recorded.facts, "corrections")
    named = replace(reading, positive=training.positive, negative=training.negative)
    for each in old:
        known = each.get("new") is True
        kept = replace(reading if known or one_class else named, part=each.get("part"))
        names, paths = _object(each, "columns"), list(map(Path, each["paths"]))
        kept = replace(kept, text=names.get("text", kept.text), label=names.get("label", kept.label))
        if known or not corrections:
            part = corpora.read_again(console, paths, kept, learning, fitted, training, "old")
        else:
            uncorrected = replace(learning, duplicates=options.Duplicates.keep)
            part = corpora.read_again(console, paths, kept, uncorrected, fitted, training, "old")
            part = corpora.corrected_again(console, part, corrections)
            part = part.without_duplicates() if learning.duplicates is options.Duplicates.drop else part
        part = corpora.as_trained(part, fitted, training) if known else part
        if each.get("digest") not in (None, model_files.corpus_digest(part)):
            raise InputError(
                f"{part.source} has changed since the training; name it with --corpus to train on it "
                "as it is now"
            )
        if each.get("digest of the training") not in (None, model_files.corpus_digest(part)):
            console.say(f"note: {part.source} has other documents or labels than the training corpus")
        parts.append(corpora.as_trained(part, fitted, training) if one_class else part)
    return parts


def _report_known(console: Console, fresh: Corpus, parts: list[Corpus]) -> None:
    """Report new documents that are in the old corpora; InputError if nearly all are."""
    if not len(fresh.texts):
        return  # equal vectors need not be copies
    documents = {
        each for part in parts for each in zip(part.digests(), part.targets or part.labels or (), strict=True)
    }
    known, digests = {digest for digest, _ in documents}, list(fresh.digests())
    count = sum(digest in known for digest in digests)
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


def _update_online(fitted: Any, fresh: Corpus) -> dict[str, Any]:
    """Teach an OnlineSVC new documents, and report the changes."""
    texts = list(fresh.texts)
    before, old = fitted.predict(texts), [str(each) for each in fitted.classes_]
    kind = type(fitted.classes_.tolist()[0])
    try:
        known = {str(each): each for each in fitted.classes_.tolist()}
        names = map(str, fresh.labels or [])
        given = [known[name] if name in known or kind is bool else kind(name) for name in names]
    except (KeyError, ValueError) as error:
        raise InputError(f"{fresh.source}: a label is not of the type of the classes: {error}") from error
    fitted.add_classes(sorted(set(given)))
    fitted.partial_fit(texts, given)
    after: list[Any] = [None] * len(texts)
    if fitted.max_texts is None:
        values = fitted.left_out()[0][-len(texts) :]
        codes = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
        after = list(fitted.classes_[codes])
    return _changes(fresh, old, list(before), after)


def _changes(
    fresh: Corpus, old: list[str], before: list[Any], after: list[Any], epsilon: float = 0.0
) -> dict[str, Any]:
    """The report: labels added, accuracies or mean errors, and changed predictions on the new documents.

    A predicted number has changed if it has moved by more than `epsilon`.
    """
    of_numbers = fresh.targets is not None
    truth: Any = fresh.targets if of_numbers else fresh.labels or []
    columns = [
        [each if each is None else float(each) if of_numbers else _name(each) for each in column]
        for column in (truth, before, after)
    ]
    names = ("id", "label", "before", "after")
    rows = [dict(zip(names, row, strict=True)) for row in zip(fresh.ids, *columns, strict=True)]
    tested = [row for row in rows if row["after"] is not None]

    def quality(some: list[dict[str, Any]], name: str) -> float | None:
        of_each = [abs(row["label"] - row[name]) if of_numbers else row["label"] == row[name] for row in some]
        return sum(of_each) / len(some) if some else None

    measure = "mean_error" if of_numbers else "accuracy"
    moved = (row for row in tested if not of_numbers or abs(row["after"] - row["before"]) > epsilon)
    known = {label for each in fresh.labels or [] for label in (each if isinstance(each, tuple) else (each,))}
    return {
        "new_documents": len(rows),
        "labels_added": sorted(known - set(old)),
        f"{measure}_before": quality(rows, "before"),
        f"{measure}_after": quality(tested, "after"),
        "changed": [row for row in moved if row["before"] != row["after"]],
    }


def _name(prediction: Any) -> str:
    """A label, or several labels, as in a table."""
    return ";".join(sorted(map(str, prediction))) if isinstance(prediction, tuple) else str(prediction)


def _show(console: Console, report: dict[str, Any]) -> None:
    def cell(value: Any) -> str:
        if value is None:
            return "not known"
        return f"{100 * value:.1f} %" if measure == "accuracy" else f"{value:.3g}"

    measure, changed = "accuracy" if "accuracy_before" in report else "mean_error", report["changed"]
    name = measure.replace("_", " ")
    console.table(
        f"model {report['model']}",
        [
            ("new documents", f"{report['new_documents']:,}"),
            ("labels added", ", ".join(report["labels_added"]) or "none"),
            (f"{name} on new documents, before", cell(report[f"{measure}_before"])),
            (f"{name} on new documents, after", cell(report[f"{measure}_after"])),
            ("changed predictions", f"{len(changed):,}"),
        ],
    )
    names = ("id", "label", "before", "after")
    if changed:
        title = "changed predictions" + f" (the first {_SHOWN})" * (len(changed) > _SHOWN)
        rows = [
            [each if isinstance(each, str) else f"{each:.4g}" for each in row.values()] for row in changed
        ]
        console.table(title, rows[:_SHOWN], names)
