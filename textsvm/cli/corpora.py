"""Read corpora for commands, and choose the kernel that fits their documents.

A corpus holds texts, vectors, or columns of both. If no kernel is named, vectors get a Gaussian kernel, and
columns the sum of the fast kernel on each text column and a Gaussian kernel on the numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textsvm.cli.options import Duplicates, LearningOptions, ReadingOptions
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.console import Console
    from textsvm.cli.kernels import KernelOptions
    from textsvm.kernels.base import Kernel
    from textsvm.readers.corpus import Corpus


def read(
    console: Console,
    path: Path | list[Path],
    reading: ReadingOptions,
    learning: LearningOptions | None = None,
    *,
    groups: str | None = None,
    headers: bool = False,
    kernel: Any = None,
) -> Corpus:
    """Read a corpus, select a part, reduce its labels to two if requested, and report problems.

    `kernel` is the named kernel of the model; a kernel on columns tells which columns are needed.
    """
    from textsvm.readers.read import read_corpus
    from textsvm.readers.stream import is_large, stream_corpus

    learning = learning or LearningOptions()
    learning.check(reading)
    with console.progress():
        settings: dict[str, Any] = {
            **columns(reading, kernel), "split": reading.split.value, "label": reading.label,
            "id": reading.id, "target": learning.regress, "weight": learning.weights, "group": groups,
            "headers": reading.headers or headers, "label_separator": learning.separator,
            "progress": console.progress_of("read"),
        }  # fmt: skip
        if is_large(path):
            corpus = stream_corpus(path, reading.format, **settings).stored()
        else:
            corpus = read_corpus(path, reading.format, **settings)
        corpus = with_files(corpus, reading, learning.regress is not None).select(reading.part)
    if reading.positive is not None:
        corpus = corpus.reduce_labels(reading.positive, reading.negative or corpus.opposite(reading.positive))
    if learning.multilabel:
        corpus = _with_label_tuples(console, corpus)
    check_letters(kernel, corpus)
    say_problems(console, corpus)
    return corpus.without_duplicates() if learning.duplicates is Duplicates.drop else corpus


def _with_label_tuples(console: Console, corpus: Corpus) -> Corpus:
    """Give every document a tuple of labels; leave out Reuters stories without a topic."""
    if corpus.labels is None:
        return corpus
    labels = [(label,) if isinstance(label, str) else label for label in corpus.labels]
    corpus = replace(corpus, labels=labels)
    labelled = [i for i, each in enumerate(labels) if each]
    if corpus.format != "reuters" or len(labelled) == len(corpus):
        return corpus
    console.say(f"note: {len(corpus) - len(labelled):,} stories without a topic are left out")
    return corpus.subset(labelled)


def targets(corpus: Corpus, several: bool = False) -> list[Any]:
    """Numbers or labels of the documents; with `several`, non-empty tuples of labels."""
    if corpus.targets is not None:
        return corpus.targets
    if corpus.labels is None:
        if corpus.of_sequences:
            raise InputError(
                f"{corpus.source} has no labels: the header of record 1, {corpus.ids[0]}, names none; write "
                ">id label=NAME, give each class a file, or name a part of the headers with --label"
            )
        vectors = not (len(corpus.texts) or corpus.columns)
        remedy = (
            "give them in a separate file, --labels FILE"
            if vectors
            else "name a column with --label, or use a folder per class"
        )
        raise InputError(f"{corpus.source} has no labels; {remedy}")
    if several:
        for identifier, each in zip(corpus.ids, corpus.labels, strict=True):
            if not each:
                raise InputError(
                    f"document {identifier} of {corpus.source} has no label; add one or remove it"
                )
        return list(corpus.labels)
    labels = [label for label in corpus.labels if isinstance(label, str)]
    if len(labels) < len(corpus):
        raise InputError(
            f"documents of {corpus.source} may have several labels; learn all of them with --multilabel "
            "(train, cv, tune), or separate one label from the others with --positive"
        )
    return labels


def truth(corpus: Corpus) -> list[Any]:
    """Targets of documents that `targets` has checked."""
    return list(corpus.targets if corpus.targets is not None else corpus.labels or [])


def columns(given: Any, kernel: Any = None) -> dict[str, Any]:
    """Arguments `text` and `numbers` of the readers: the columns of the options, else the kernel's."""
    from textsvm.kernels.given import structure_of

    on_columns = kernel is not None and structure_of(kernel).reads_tables
    if given.text is None and given.numbers is None and on_columns:
        return _columns_of(kernel, given.vectors is not None)
    text: Any = given.text and given.text[0]
    if given.text and (len(given.text) > 1 or given.vectors or on_columns):
        text = given.text
    return {"text": text, "numbers": given.numbers}


def _columns_of(kernel: Kernel, with_vectors: bool) -> dict[str, Any]:
    """Columns that a kernel is on, without the vectors of --vectors and the unnamed text column."""
    from textsvm.readers.corpus import VECTORS

    names = [view.column for view in kernel.structure.bound().structure.views]
    texts = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    numbers = list(dict.fromkeys(part for name in names if isinstance(name, tuple) for part in name))
    if with_vectors:
        numbers = [name for name in numbers if name != VECTORS]
    elif VECTORS in numbers:
        raise InputError("the kernel compares vectors beside the texts; name their file with --vectors")
    if with_vectors and texts == ["text"] and not numbers:
        return {"text": None, "numbers": None}
    return {"text": texts, "numbers": numbers or None}


def with_files(corpus: Corpus, given: Any, numbers: bool = False) -> Corpus:
    """Add the vectors and labels of separate files; with `numbers` the labels are regression targets."""
    if given.vectors is not None:
        from textsvm.readers.vectors import read_vectors

        corpus = corpus.with_vectors(read_vectors(given.vectors), str(given.vectors))
    source = getattr(given, "labels", None)
    if source is None:
        return corpus
    from textsvm.readers.vectors import read_labels

    corpus = corpus.with_labels(read_labels(source), str(source))
    if not numbers:
        return corpus
    try:
        return replace(corpus, labels=None, targets=[float(str(label)) for label in corpus.labels or ()])
    except ValueError as error:
        raise InputError(f"{source} must hold the numbers to be predicted: {error}") from error


def given_to(model: Any, corpus: Corpus) -> Any:
    """Documents of a corpus as a fitted model takes them; sparse vectors get as many columns as it has."""
    from textsvm.readers.corpus import VECTORS

    examples = corpus.examples
    machine = getattr(model, "estimator_", model)
    if machine.kernel_ is not None:
        _require(machine.kernel_.structure.examples, "the model", corpus)
    table = isinstance(examples, dict)
    if not hasattr(examples.get(VECTORS) if table else examples, "indptr" if table else "shape"):
        return examples
    from textsvm.model.libsvm import fit_columns, widened

    if not table:
        return fit_columns(model, examples)
    widths = [
        machine.support_documents_.of(view).n_features
        for view in machine.kernel_.structure.views
        if view.column == (VECTORS,)
    ]
    return {**examples, VECTORS: widened(examples[VECTORS], max(widths, default=0))}


def names_of(paths: list[Path]) -> str:
    """File names of a corpus, for a title."""
    return ", ".join(path.name for path in paths)


def check_letters(kernel: Any, corpus: Corpus) -> None:
    """Raise InputError if a FASTA or FASTQ record has a letter outside a kernel's alphabet."""
    if not corpus.of_sequences:
        return
    leaves = kernel.structure.leaves if hasattr(kernel, "structure") else ()
    for letters in {leaf.structure.letters for leaf in leaves} - {""}:
        foreign = re.compile(f"[^{letters}]", re.IGNORECASE)
        for identifier, text in zip(corpus.ids, corpus.texts, strict=True):
            if match := foreign.search(text):
                raise InputError(
                    f"record {identifier} of {corpus.source} has the letter {match[0]!r}, and a canonical "
                    f"kernel reads {', '.join(letters)} only; write n for others, or leave canonical out"
                )


def kernel_of(model: Any) -> Any:
    """Kernel parameter of an estimator or of the estimator it calibrates."""
    return getattr(model, "estimator", model).kernel


def settle(console: Console, model: Any, named: bool, corpus: Corpus) -> None:
    """Set the kernel that fits the documents of a corpus, and report it if none was named."""
    estimator = getattr(model, "estimator", model)
    kernel = kernel_for(kernel_of(model) if named else None, corpus)
    if kernel is None:
        return
    estimator.kernel = kernel
    estimator.check()
    if not named:
        from textsvm.kernels.spelling import spell

        kind = "vectors" if corpus.columns is None and corpus.vectors is not None else "columns"
        console.say(f"note: the default kernel for {kind} is used: {spell(kernel)}")


def settle_grid(options: KernelOptions, model: Any, grid: dict[str, list[Any]], corpus: Corpus) -> None:
    """`settle` for `tune`; for vectors without a named kernel the grid has several values of gamma."""
    examples = corpus.examples
    if not isinstance(examples, dict) and hasattr(examples, "shape") and not options.named:
        grid["kernel"] = options.grid(tuning=True, default="gaussian")
    grid["kernel"] = [kernel_for(kernel, corpus) or kernel for kernel in grid["kernel"]]
    model.kernel = grid["kernel"][0]


def candidates(corpus: Corpus, names: list[str], device: str) -> dict[str, Any]:
    """Factories of the classifiers that `compare` compares on a corpus, by name."""
    from textsvm.cli.kernels import DEFAULTS, spelled_out
    from textsvm.evaluation import opponents
    from textsvm.machines.classifier import Classifier

    examples = corpus.examples
    if not names and not hasattr(examples, "shape") and not isinstance(examples, dict):
        return opponents.candidates(device)
    factories: dict[str, Any] = {}
    for name in names or (["fast"] if isinstance(examples, dict) else ["gaussian", "linear"]):
        kernel = kernel_for(None if name in DEFAULTS else spelled_out(name), corpus)
        factories[name] = (
            partial(opponents.machine, name, device)
            if kernel is None
            else partial(Classifier, kernel, device=device)
        )
    return factories


def kernel_for(kernel: Any, corpus: Corpus) -> Kernel | None:
    """Kernel to set for the documents of a corpus; None to keep `kernel`."""
    examples = corpus.examples
    if not isinstance(examples, dict):
        if kernel is not None:
            _require(_reads(kernel), "the kernel", corpus)
        if not hasattr(examples, "shape") or kernel is not None:
            return None
        from textsvm.kernels import Gaussian

        return Gaussian()
    return kernel if _reads(kernel) == "columns" else _sum_on_columns(kernel, examples)


def _sum_on_columns(kernel: Any, examples: dict[str, Any]) -> Kernel:
    """Sum of a text kernel on each text column and a vector kernel on all numbers and on the vectors.

    `kernel` is one of the two or None; the other is the fast kernel or a Gaussian kernel.
    """
    from textsvm.kernels import Gaussian, On, Sum
    from textsvm.kernels.spectrum.kernel import fixed_default

    of_numbers = kernel if _reads(kernel) == "vectors" else Gaussian()
    of_texts = kernel if _reads(kernel) == "texts" and not isinstance(kernel, str) else fixed_default()
    texts = [name for name, values in examples.items() if not hasattr(values, "dtype")]
    numbers = [name for name, values in examples.items() if hasattr(values, "dtype") and values.ndim == 1]
    vectors = [name for name, values in examples.items() if hasattr(values, "dtype") and values.ndim == 2]
    parts = [On(name, of_texts) for name in texts]
    parts += [On(numbers if len(numbers) > 1 else numbers[0], of_numbers)] if numbers else []
    parts += [On(name, of_numbers) for name in vectors]
    return parts[0] if len(parts) == 1 else Sum(parts)


def _reads(kernel: Any) -> str:
    """Kind of document that a kernel compares; "" for None."""
    from textsvm.kernels.given import structure_of

    return "" if kernel is None else structure_of(kernel).examples


def _require(reads: str, subject: str, corpus: Corpus) -> None:
    """Raise InputError if a corpus holds another kind of document than `subject` compares."""
    examples = corpus.examples
    kind = "columns" if isinstance(examples, dict) else "vectors" if hasattr(examples, "shape") else "texts"
    if kind != reads:
        remedy = {
            "vectors": "use linear, polynomial, gaussian or sigmoid",
            "texts": "name another kernel, or give vectors",
            "columns": "name the columns in the kernel, as in subject=spectrum:1-5+hour,size=gaussian",
        }[kind]
        raise InputError(f"{corpus.source} holds {kind}, and {subject} compares {reads}; {remedy}")


def say_problems(console: Console, corpus: Corpus) -> None:
    """Report problems of reading, and count empty documents and exact copies."""
    for identifier, problem in corpus.problems[:5]:
        console.say(f"note: {identifier}: {problem}")
    if len(corpus.problems) > 5:
        console.say(
            f"note: {len(corpus.problems) - 5:,} more notes of that kind; `textsvm corpus` shows them all"
        )
    if len(corpus.texts) and corpus.columns is None:
        empty = sum(not text or text.isspace() for text in corpus.texts)
        if empty:
            console.say(f"note: {empty:,} of {len(corpus):,} documents are empty")
    groups = corpus.duplicates()
    if groups:
        copies = sum(len(group) - 1 for group in groups)
        conflicts = len(corpus.conflicting_duplicates())
        more = f"; {conflicts:,} sets of copies have different labels" if conflicts else ""
        console.say(f"note: {copies:,} of {len(corpus):,} documents are exact copies of others{more}")


def say_long_documents(console: Console, corpus: Corpus) -> None:
    """Warn of a very long document before training with a kernel of quadratic time."""
    if not len(corpus.texts):
        return
    longest = max(range(len(corpus)), key=lambda i: len(corpus.texts[i]))
    length = len(corpus.texts[longest])
    if length > 100_000:
        console.say(
            f"note: {corpus.ids[longest]} has {length:,} symbols, and the time of this kernel grows with the "
            "product of lengths; limit it with --max-length, or use a spectrum kernel"
        )


def say_lone_classes(console: Console, counts: Mapping[str, int]) -> None:
    """Warn if half of the classes or more have a single document: the labels may be names or numbers."""
    lone = sum(count == 1 for count in counts.values())
    if lone > 1 and 2 * lone >= len(counts):
        console.say(
            f"note: {lone:,} of the {len(counts):,} classes have a single document, from which nothing "
            "can be learnt; check the label column (--label), or predict numbers with --regress"
        )


def hold_out(
    console: Console, corpus: Corpus, share: float | None, seed: int
) -> tuple[Corpus, Corpus | None]:
    """Split a corpus into a training and a test part, stratified if each document has one label."""
    if share is None:
        return corpus, None
    several = any(isinstance(each, tuple) for each in corpus.labels or ())
    lone: set[int] = set()
    if corpus.labels is not None and not several:
        labels = targets(corpus)
        counts = Counter(labels)
        lone = {i for i, label in enumerate(labels) if counts[label] == 1}
    if lone:
        console.say(f"note: {_lone_note(sorted(str(targets(corpus)[i]) for i in lone))}")
    from textsvm.selection.folds import shuffle_split

    drawn = [i for i in range(len(corpus)) if i not in lone]
    stratify: list[Any] | None = (
        None if several or corpus.labels is None else [corpus.labels[i] for i in drawn]
    )
    _require_enough(share, len(drawn), len(set(stratify or [0])))
    rest, held = shuffle_split(len(drawn), share, seed, stratify or None)
    kept = sorted([*(drawn[i] for i in rest), *lone])
    return corpus.subset(kept), corpus.subset([drawn[i] for i in held])


def _require_enough(share: float, n: int, classes: int) -> None:
    """Raise InputError if a part would lack a class."""
    if not n:
        raise InputError(f"--holdout {share:g} cannot be drawn: every class has a single document")
    held = ceil(share * n)
    for action, size in {"holds out": held, "leaves for training": n - held}.items():
        if size < classes:
            each = f"one of each of the {classes} classes" if classes > 1 else "one"
            raise InputError(
                f"--holdout {share:g} cannot be drawn: of {n:,} documents it {action} {size:,}, and both "
                f"parts need {each}; use a {'larger' if action == 'holds out' else 'smaller'} share"
            )


def _lone_note(labels: list[str]) -> str:
    from textsvm.selection.folds import quoted_names

    if len(labels) == 1:
        return f"class {quoted_names(labels)} has 1 document: it is trained on and never held out"
    return f"classes {quoted_names(labels)} have 1 document each: they are trained on and never held out"
