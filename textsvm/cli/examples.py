"""What a model is given of a corpus: texts, vectors, or columns of both; and which kernel compares them.

Of a corpus of vectors, and of columns, the kernel that nobody named is known once they are read: a Gaussian
one of vectors, and of columns the sum of the fast kernel on each of texts and a Gaussian one on the numbers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.console import Console
    from textsvm.cli.kernels import KernelOptions
    from textsvm.kernels.base import Kernel
    from textsvm.readers import Corpus


def columns(given: Any, kernel: Any = None) -> dict[str, Any]:
    """Columns of texts and numbers as the readers take them: those given (options), else the kernel's."""
    if given.text is None and given.numbers is None and getattr(kernel, "reads", "") == "columns":
        return _of_kernel(kernel, given.vectors is not None)
    text: Any = given.text and given.text[0]
    if given.text and (len(given.text) > 1 or given.vectors or getattr(kernel, "reads", "") == "columns"):
        text = given.text
    return {"text": text, "numbers": given.numbers}


def beside(corpus: Corpus, given: Any, numbers: bool = False) -> Corpus:
    """A corpus with the vectors and labels that other files have; labels may be numbers to be predicted."""
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
        raise InputError(f"{source} does not hold numbers, which were to be predicted: {error}") from error


def given_to(model: Any, corpus: Corpus) -> Any:
    """The examples of a corpus as a fitted model takes them; sparse ones with as many columns as it has."""
    from textsvm.readers.corpus import VECTORS

    examples = corpus.examples
    machine = getattr(model, "estimator_", model)
    if machine.kernel_ is not None:
        _require(machine.kernel_.reads, "the model", corpus)
    table = isinstance(examples, dict)
    if not hasattr(examples.get(VECTORS) if table else examples, "indptr" if table else "shape"):
        return examples
    from textsvm.model.libsvm import fit_columns, widened

    if not table:
        return fit_columns(model, examples)
    widths = [
        machine.support_documents_.of(view).n_features
        for view in machine.kernel_.views
        if view.column == (VECTORS,)
    ]
    return {**examples, VECTORS: widened(examples[VECTORS], max(widths, default=0))}


def names_of(paths: list[Path]) -> str:
    """The names of the files of a corpus, for a title."""
    return ", ".join(path.name for path in paths)


def check_letters(kernel: Any, corpus: Corpus) -> None:
    """Raise InputError if a record of FASTA or FASTQ has a letter that a kernel cannot read."""
    if not corpus.of_sequences:
        return
    for letters in {leaf.letters for leaf in getattr(kernel, "leaves", ()) if leaf.letters}:
        other = re.compile(f"[^{letters}]", re.IGNORECASE)
        for identifier, text in zip(corpus.ids, corpus.texts, strict=True):
            if found := other.search(text):
                raise InputError(
                    f"record {identifier} of {corpus.source} has the letter {found[0]!r}, and a canonical "
                    f"kernel reads {', '.join(letters)} only; write n for others, or leave canonical out"
                )


def settle(console: Console, model: Any, named: bool, corpus: Corpus) -> None:
    """Give an estimator the kernel that compares the examples of a corpus; say which, if nobody named it."""
    estimator = getattr(model, "estimator", model)
    kernel = kernel_for(kernel_of(model) if named else None, corpus)
    if kernel is None:
        return
    estimator.kernel = kernel
    estimator.check()
    if not named:
        from textsvm.kernels.spelling import spell

        what = "vectors" if corpus.columns is None and corpus.vectors is not None else "columns"
        console.say(f"note: no kernel is chosen for {what}; taken is {spell(kernel)}")


def settle_grid(options: KernelOptions, model: Any, grid: dict[str, list[Any]], corpus: Corpus) -> None:
    """The same for `tune`, which tries values of gamma where it finds the kernel of vectors itself."""
    examples = corpus.examples
    if not isinstance(examples, dict) and hasattr(examples, "shape") and not options.named:
        grid["kernel"] = options.grid(tuning=True, default="gaussian")
    kernels = [kernel_for(kernel, corpus) for kernel in grid["kernel"]]
    grid["kernel"] = [new or kernel for new, kernel in zip(kernels, grid["kernel"], strict=True)]
    model.kernel = grid["kernel"][0]


def candidates(corpus: Corpus, names: list[str], device: str) -> dict[str, Any]:
    """What `compare` compares on the examples of a corpus, by name: callables that make a classifier."""
    from textsvm.cli.kernels import DEFAULTS, spelled_out
    from textsvm.estimators.svc import SVC
    from textsvm.evaluation import opponents

    examples = corpus.examples
    if not names and not hasattr(examples, "shape") and not isinstance(examples, dict):
        return opponents.candidates(device)
    usual = ["fast"] if isinstance(examples, dict) else ["gaussian", "linear"]
    made: dict[str, Any] = {}
    for name in names or usual:
        kernel = kernel_for(None if name in DEFAULTS else spelled_out(name), corpus)
        made[name] = (
            partial(opponents.machine, name, device)
            if kernel is None
            else partial(SVC, kernel, device=device)
        )
    return made


def kernel_of(model: Any) -> Any:
    """The kernel that an estimator was made with."""
    return getattr(model, "estimator", model).kernel


def kernel_for(kernel: Any, corpus: Corpus) -> Kernel | None:
    """The kernel for the examples of a corpus, given one that was named, or None; None to leave it as it is.

    Raises
    ------
    InputError
        If the named one compares something else.
    """
    examples = corpus.examples
    if not isinstance(examples, dict):
        if kernel is not None:
            _require(_reads(kernel), "the kernel", corpus)
        if not hasattr(examples, "shape") or kernel is not None:
            return None
        from textsvm.kernels import Gaussian

        return Gaussian()
    return kernel if _reads(kernel) == "columns" else on_columns(kernel, examples)


def on_columns(kernel: Any, examples: dict[str, Any]) -> Kernel:
    """A sum: a kernel of texts on each column of texts, one of vectors on all numbers and on the vectors.

    Parameters
    ----------
    kernel : Kernel, str or None
        One of the two; the other is the fast kernel, or a Gaussian one.
    examples : dict of columns
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


def _of_kernel(kernel: Kernel, beside: bool) -> dict[str, Any]:
    """The columns that a kernel is on; vectors `beside` are no column, nor are texts that have no name."""
    from textsvm.readers.corpus import VECTORS

    names = [view.column for view in kernel.views]
    texts = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    numbers = list(dict.fromkeys(one for name in names if isinstance(name, tuple) for one in name))
    if beside:
        numbers = [name for name in numbers if name != VECTORS]
    elif VECTORS in numbers:
        raise InputError("the kernel compares vectors beside the texts; name their file with --vectors")
    if beside and texts == ["text"] and not numbers:
        return {"text": None, "numbers": None}
    return {"text": texts, "numbers": numbers or None}


def _reads(kernel: Any) -> str:
    """What a kernel compares, "" if it is none."""
    from textsvm.kernels.spelling import reads_of

    return "" if kernel is None else reads_of(kernel)


def _require(reads: str, what: str, corpus: Corpus) -> None:
    """Raise InputError if examples are not what is compared."""
    examples = corpus.examples
    held = "columns" if isinstance(examples, dict) else "vectors" if hasattr(examples, "shape") else "texts"
    if held != reads:
        remedy = {
            "vectors": "take linear, polynomial, gaussian or sigmoid",
            "texts": "name another kernel, or give vectors",
            "columns": "spell it out, as in subject=spectrum:1-5+hour,size=gaussian",
        }[held]
        raise InputError(f"{corpus.source} holds {held}, and {what} compares {reads}; {remedy}")
