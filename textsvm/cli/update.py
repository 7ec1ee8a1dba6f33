"""textsvm update: a model and new labelled documents -> the model trained on old and new documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option
from textsvm.cli.output import MODEL, Output
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.model_files import Training
    from textsvm.readers.corpus import Corpus

#: Most changed predictions that are printed.
_SHOWN = 20


@options.with_groups
def update(
    model: options.ModelPath,
    new: Annotated[
        list[Path],
        typer.Argument(help="New labelled documents, like the corpus.", show_default=False),
    ],
    printing: options.PrintingOptions,
    corpus: Annotated[
        list[Path] | None,
        option(
            "Old corpus, repeatable (default: the corpus recorded in the model, if it is unchanged).",
            metavar="PATH",
        ),
    ] = None,
    output: Annotated[
        Path | None, option("Model file to write (default: MODEL is replaced).", "--output", "-o")
    ] = None,
    folds: Annotated[int, option("Folds of the cross-validation.", min=2)] = 5,
    device: options.Device = "auto",
) -> None:
    """Train a classifier on its old and on new documents, with its recorded options, and report the changes.

    textsvm update spam.textsvm corrected.csv

    Kernel and C stay as they are. The new documents are predicted by the old model, and by cross-validation
    of the new model: no prediction comes from a machine that was trained on the document. An OnlineSVC model
    goes on learning and needs no old corpus; its predictions after the update are leave-one-out estimates.
    """
    console = Console(printing.quiet)
    target = Output("-o", output or model, MODEL).checked({"the corpus": [*new, *(corpus or [])]})

    from textsvm.cli import model_files

    fitted = model_files.load_model(console, model, device, online=True)
    training = model_files.Training.of(fitted)
    info = dict(fitted.info_)
    online = fitted.estimator_name == "OnlineSVC"
    if fitted.estimator_name not in ("SVC", "CalibratedSVC", "OnlineSVC") or training.regress is not None:
        raise InputError(
            f"{model} is a {fitted.estimator_name}, and update is for classifiers with a label for each "
            "document; train it again on the old and the new documents"
        )
    if online and corpus:
        raise WrongUsage(f"--corpus: {model} is an OnlineSVC, which holds its old texts; leave it out")
    recorded = _object(info, "update")
    try:
        reading, learning = _options(_object(info, "reading"), recorded)
    except (TypeError, ValueError) as error:
        raise InputError(f"the options that {model} records are damaged ({error}); train it again") from error
    fresh = _as_trained(_read(console, new, reading, learning, fitted, training, "new"), training)
    if online:
        if fresh.columns is not None:
            raise InputError("an OnlineSVC reads a single column of texts; name it with the column `text`")
        report = _continue(fitted, fresh)
        with target.place() as path:
            from textsvm.model.file import save

            save(fitted, path, info)
    else:
        report = _train_again(
            console, target, fitted, fresh, _old_corpora(recorded, corpus, model), folds,
            (new, recorded, reading, learning, training),
        )  # fmt: skip
    report = {"model": str(target.path), **report}
    console.print_json(report) if printing.json else _show(console, report)


def _object(info: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in the information of a model; {} for any other value."""
    value = info.get(name)
    return value if isinstance(value, dict) else {}


def _options(given: dict[str, Any], recorded: dict[str, Any]) -> tuple[options.ReadingOptions, Any]:
    """Reading and learning options that are recorded in a model."""
    text = given.get("text")
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
    duplicates = options.Duplicates(recorded.get("duplicates", "keep"))
    return reading, options.LearningOptions(weights=recorded.get("weights"), duplicates=duplicates)


def _old_corpora(recorded: dict[str, Any], corpus: list[Path] | None, model: Path) -> list[dict[str, Any]]:
    """Old corpora: paths, part and digest (None: not checked)."""
    if corpus:
        return [{"paths": list(map(str, corpus)), "part": recorded.get("part"), "digest": None}]
    corpora = recorded.get("corpora")
    if not (isinstance(corpora, list) and corpora and all(map(_is_usable, corpora))):
        raise InputError(f"{model} records no corpus that update could read; name it with --corpus")
    for path in (path for each in corpora for path in each["paths"]):
        if not Path(path).exists():
            raise InputError(
                f"the corpus {path} that {model} was trained on is not there; name it with --corpus"
            )
    return corpora


def _is_usable(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("paths"), list) and bool(entry["paths"])


def _read(
    console: Console, paths: Sequence[Path], reading: Any, learning: Any, fitted: Any, training: Training,
    kind: str,
) -> Corpus:  # fmt: skip
    from textsvm.cli import corpora

    kernel = None if fitted.estimator_name == "OnlineSVC" else corpora.kernel_of(fitted)
    documents = corpora.read(
        console, list(paths), reading, learning, kernel=kernel, recorded=training.columns
    )
    if documents.labels is None:
        raise InputError(f"{documents.source} has no labels, and {kind} documents need them")
    return documents


def _as_trained(corpus: Corpus, training: Training) -> Corpus:
    """New documents with the labels of a model that was trained with --positive."""
    from textsvm.cli.corpora import targets

    positive, negative = training.positive, training.negative
    if positive is None:
        targets(corpus)
        return corpus
    sets = [{each} if isinstance(each, str) else set(each) for each in corpus.labels or []]
    rest = negative is None or negative == "rest"
    used = [i for i, each in enumerate(sets) if each and (rest or (positive in each) != (negative in each))]
    if not used:
        raise InputError(f"{corpus.source} has no document of {positive!r} or {negative!r}")
    labels = [positive if positive in sets[i] else negative or "rest" for i in used]
    return replace(corpus.subset(used), labels=labels)


def _train_again(
    console: Console,
    target: Output,
    fitted: Any,
    fresh: Corpus,
    old: list[dict[str, Any]],
    folds: int,
    recorded: tuple[Any, ...],
) -> dict[str, Any]:
    """Train on old and new documents, save the model, and report the changes."""
    from textsvm.cli import corpora, model_files
    from textsvm.evaluation import drift, judge
    from textsvm.readers.corpus import concatenate_corpora
    from textsvm.selection.cross_validation import cross_validate

    new, facts, reading, learning, training = recorded
    parts = []
    named = replace(reading, positive=training.positive, negative=training.negative)
    for each in old:
        paths = list(map(Path, each["paths"]))
        known = each.get("new") is True
        part = _read(
            console, paths, replace(reading if known else named, part=each.get("part")), learning, fitted,
            training, "old",
        )  # fmt: skip
        part = _as_trained(part, training) if known else part
        if each.get("digest") not in (None, model_files.corpus_digest(part)):
            raise InputError(
                f"{part.source} has changed since the training; name it with --corpus to train on it "
                "as it is now"
            )
        parts.append(part)
    old_labels = [label for part in parts for label in part.labels or []]
    combined = concatenate_corpora([*parts, fresh], f"{parts[0].source} and {fresh.source}", fresh.format)
    n_old, truth = len(old_labels), corpora.truth(combined)
    machine = judge.machine_of(fitted).copy()
    machine.C = judge.machine_of(fitted).C_
    again, texts = machine, judge.machine_of(fitted).weight_vectors_ is None
    if hasattr(fitted, "estimator_"):
        again = fitted.copy()
        again.estimator = machine
    with console.work(None):
        given = corpora.given_to(fitted, fresh)
        before = judge.predict(fitted, given, [], training.positive, console.stage)[1]
        try:
            with console.warnings():
                result = cross_validate(
                    machine.copy(), combined.examples, truth,
                    cv=folds, sample_weight=combined.weights, metrics=["accuracy"], progress=console.stage,
                )  # fmt: skip
            after: list[Any] = list(result.predictions[n_old:])
        except InputError as error:
            console.say(f"note: no cross-validation: {error}")
            after = [None] * len(fresh)
        again.fit(combined.examples, truth, sample_weight=combined.weights, progress=console.stage)
        numbers = drift.record(
            again, len(combined), lambda index: combined.subset(index.tolist()).examples, truth
        )
    console.say_device(again.device_)
    update_facts = {**facts, "corpora": [*old, model_files.corpus_facts(fresh, new, new=True)]}
    about = model_files.training_facts(again, combined) | {"holdout": None, "drift": numbers}
    with console.warnings():
        model_files.save_model(
            target, again, combined, named, learning, about | {"update": update_facts}, texts
        )
    return _changes(fresh, [str(each) for each in old_labels], list(before), after)


def _continue(fitted: Any, fresh: Corpus) -> dict[str, Any]:
    """Teach an OnlineSVC new documents, and report the changes."""
    labels, texts = list(fresh.labels or []), list(fresh.texts)
    before, old = fitted.predict(texts), [str(each) for each in fitted.classes_]
    kind = type(fitted.classes_.tolist()[0])
    try:
        known = {str(each): each for each in fitted.classes_.tolist()}
        given = [known[label] if label in known else kind(label) for label in labels]
    except ValueError as error:
        raise InputError(f"{fresh.source}: a label is not of the type of the classes: {error}") from error
    fitted.add_classes(sorted(set(given)))
    fitted.partial_fit(texts, given)
    after: list[Any] = [None] * len(texts)
    if fitted.max_texts is None:
        values = fitted.left_out()[0][-len(texts) :]
        codes = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
        after = list(fitted.classes_[codes])
    return _changes(fresh, old, list(before), after)


def _changes(fresh: Corpus, old: list[str], before: list[Any], after: list[Any]) -> dict[str, Any]:
    """The report: labels added, accuracies, and predictions on the new documents before and after."""
    labels = [str(label) for label in fresh.labels or []]
    was = [str(each) for each in before]
    now = [None if each is None else str(each) for each in after]
    rows = [
        {"id": identifier, "label": label, "before": first, "after": second}
        for identifier, label, first, second in zip(fresh.ids, labels, was, now, strict=True)
    ]
    tested = [row for row in rows if row["after"] is not None]
    return {
        "new_documents": len(rows),
        "labels_added": sorted(set(labels) - set(old)),
        "accuracy_before": sum(row["label"] == row["before"] for row in rows) / len(rows),
        "accuracy_after": sum(row["label"] == row["after"] for row in tested) / len(rows) if tested else None,
        "changed": [row for row in tested if row["before"] != row["after"]],
    }


def _show(console: Console, report: dict[str, Any]) -> None:
    after, changed = report["accuracy_after"], report["changed"]
    shown_after = "not known" if after is None else f"{100 * after:.1f} %"
    console.table(
        f"model {report['model']}",
        [
            ("new documents", f"{report['new_documents']:,}"),
            ("labels added", ", ".join(report["labels_added"]) or "none"),
            ("accuracy on new documents, before", f"{100 * report['accuracy_before']:.1f} %"),
            ("accuracy on new documents, after", shown_after),
            ("changed predictions", f"{len(changed):,}"),
        ],
    )
    names = ("id", "label", "before", "after")
    if changed:
        title = "changed predictions" + f" (the first {_SHOWN})" * (len(changed) > _SHOWN)
        console.table(title, [tuple(row[name] for name in names) for row in changed[:_SHOWN]], names)
