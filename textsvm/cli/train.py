"""textsvm train: a labelled corpus -> a model file."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage, print_json
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.estimators.svc import SVC
    from textsvm.evaluation.metrics import Results
    from textsvm.kernels import Kernel
    from textsvm.readers import Corpus


class KernelName(Enum):
    """Names of the kernels on the command line."""

    spectrum = "spectrum"
    edit = "edit"
    gap = "gap"


class Weight(Enum):
    """Weightings of the spectrum's counts."""

    count = "count"
    presence = "presence"
    intersection = "intersection"
    log = "log"


class Normalise(Enum):
    """Forms of a text."""

    unicode = "unicode"
    paper = "paper"
    none = "none"


class Duplicates(Enum):
    """What to do with exact copies of a document."""

    keep = "keep"
    drop = "drop"


_KERNEL = "Kernel"
_TEXT = "Text"


def train(
    corpus: options.CorpusPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes.")] = Path(
        "model.textsvm"
    ),
    kernel: Annotated[KernelName, typer.Option(rich_help_panel=_KERNEL)] = KernelName.spectrum,
    p: Annotated[
        str | None,
        typer.Option(
            help="spectrum, gap: length of what is compared, or a range such as 3-5 (default: 4, gap 5).",
            rich_help_panel=_KERNEL,
        ),
    ] = None,
    weight: Annotated[
        Weight | None,
        typer.Option(help="spectrum: what a count weighs (default: count).", rich_help_panel=_KERNEL),
    ] = None,
    idf: Annotated[
        bool, typer.Option("--idf", help="spectrum: rare substrings weigh more.", rich_help_panel=_KERNEL)
    ] = False,
    gamma: Annotated[
        float | None,
        typer.Option(help="edit: exp(-gamma distance) (default: 0.05).", rich_help_panel=_KERNEL),
    ] = None,
    relative: Annotated[
        bool,
        typer.Option("--relative", help="edit: distance over the longer length.", rich_help_panel=_KERNEL),
    ] = False,
    decay: Annotated[
        float | None,
        typer.Option(
            help="gap: lambda in (0, 1], the cost of a symbol spanned (default: 0.5).",
            rich_help_panel=_KERNEL,
        ),
    ] = None,
    C: Annotated[float, typer.Option("-C", help="Penalty of margin violations.")] = 10.0,
    tol: Annotated[float, typer.Option(help="Stopping tolerance of the solver.")] = 1e-3,
    duality_gap: Annotated[
        float | None, typer.Option(help="Stop as well at this relative duality gap, such as 0.01.")
    ] = None,
    max_iter: Annotated[int, typer.Option(help="Bound on solver iterations; -1: none.")] = -1,
    holdout: Annotated[
        float | None,
        typer.Option(help="Share of the documents kept from training, to evaluate on, such as 0.2."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the holdout's draw.")] = 0,
    positive: options.Positive = None,
    negative: options.Negative = None,
    normalise: Annotated[
        Normalise,
        typer.Option(
            help="unicode: NFKC, case folded; paper: a-z0-9, all else one space.", rich_help_panel=_TEXT
        ),
    ] = Normalise.unicode,
    drop_punctuation: Annotated[
        bool, typer.Option("--drop-punctuation", help="Punctuation counts as space.", rich_help_panel=_TEXT)
    ] = False,
    max_length: Annotated[
        int | None,
        typer.Option(help="Only so many first symbols count (default: all).", rich_help_panel=_TEXT),
    ] = None,
    duplicates: Annotated[
        Duplicates, typer.Option(help="Exact copies of a document: keep or drop.")
    ] = Duplicates.keep,
    part: options.Part = None,
    split: options.SplitOption = options.Split.modapte,
    format: options.Format = None,
    text: options.Text = None,
    label: options.Label = None,
    id: options.Id = None,
    headers: options.Headers = False,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory for the kernel matrix, such as 2GiB (default: half of what is free)."),
    ] = None,
    device: options.Device = "auto",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a classifier on a labelled corpus and save it.

    textsvm train reuters21578.tar.gz --part train --positive earn --negative acq -o earn.textsvm
    """
    started = time.perf_counter()
    console = Console(quiet)
    if holdout is not None and not 0 < holdout < 1:
        raise WrongUsage(f"--holdout {holdout:g} is not a share between 0 and 1")
    if negative is not None and positive is None:
        raise WrongUsage("--negative needs --positive")
    if not output.absolute().parent.is_dir():
        raise WrongUsage(
            f"the folder of the output, {output.absolute().parent}, is not there; create it first"
        )

    from textsvm.device import select
    from textsvm.estimators.svc import SVC

    try:
        model = SVC(
            _kernel(kernel, p=p, weight=weight, idf=idf, gamma=gamma, relative=relative, decay=decay),
            C,
            normalise=normalise.value,
            punctuation=not drop_punctuation,
            max_length=max_length,
            tol=tol,
            duality_gap=duality_gap,
            max_iter=max_iter,
            memory=memory,
            device=device,
        )
        model.check()
        select(device)
    except InputError as error:
        raise WrongUsage(str(error)) from error

    reading: dict[str, Any] = {
        "text": text,
        "label": label,
        "id": id,
        "headers": headers,
        "split": split.value,
    }
    documents = options.read(
        console, corpus, positive=positive, negative=negative, part=part, format=format, **reading
    )
    if duplicates is Duplicates.drop:
        documents = documents.without_duplicates()
    options.require_labels(documents)
    seconds = {"read": time.perf_counter() - started}
    if max_length is None and kernel is not KernelName.spectrum:
        _note_long_documents(console, documents)
    training, held = _hold_out(documents, holdout, seed)
    results = _fit(console, model, training, held, positive)

    from textsvm.model_file import save

    summary = _summary(model, len(training), results)
    labels = {"positive": positive, "negative": negative or "rest"} if positive else {}
    info = {"corpus": documents.source, "format": documents.format, "part": part, "reading": reading}
    save(model, output, {**info, **labels, **summary})
    seconds |= {**model.seconds_, "total": time.perf_counter() - started}
    report = {"model": str(output), **summary, "seconds": seconds}
    print_json(report) if json else _show(console, model, report, results)


def _summary(model: SVC, n_train: int, results: Results | None) -> dict[str, Any]:
    """What a training run is reported and remembered by."""
    return {
        "device": model.device_.description,
        "kernel": {"name": model.kernel_.name, **model.kernel_.get_params()},
        "n_train": n_train,
        "n_support": len(model.support_),
        "iterations": model.n_iter_,
        "converged": model.solution_.converged,
        "objective": model.solution_.objective,
        "duality_gap": model.solution_.duality_gap,
        "holdout": None if results is None else results.as_dict(),
    }


def _kernel(
    name: KernelName,
    *,
    p: str | None,
    weight: Weight | None,
    idf: bool,
    gamma: float | None,
    relative: bool,
    decay: float | None,
) -> Kernel:
    """The kernel that the options describe; options of another kernel are refused."""
    from textsvm.kernels import EditDistance, GapWeighted, Spectrum

    owners = {
        "--p": (p is not None, "spectrum gap"),
        "--weight": (weight is not None, "spectrum"),
        "--idf": (idf, "spectrum"),
        "--gamma": (gamma is not None, "edit"),
        "--relative": (relative, "edit"),
        "--decay": (decay is not None, "gap"),
    }
    for option, (given, kernels) in owners.items():
        if given and name.value not in kernels.split():
            raise WrongUsage(f"{option} is not an option of the {name.value} kernel")
    if name is KernelName.edit:
        return EditDistance(gamma=0.05 if gamma is None else gamma, relative=relative)
    low, high = _lengths(p, "4" if name is KernelName.spectrum else "5")
    if name is KernelName.spectrum:
        return Spectrum(p=low if low == high else (low, high), weight=(weight or Weight.count).value, idf=idf)
    blend = None if low == high else tuple(float(q >= low) for q in range(1, high + 1))
    return GapWeighted(p=high, decay=0.5 if decay is None else decay, weights=blend)


def _lengths(p: str | None, default: str) -> tuple[int, int]:
    low, _, high = (p or default).partition("-")
    try:
        lengths = int(low), int(high or low)
    except ValueError:
        raise WrongUsage(f"--p {p} is neither a number nor a range such as 3-5") from None
    if not 1 <= lengths[0] <= lengths[1]:
        raise WrongUsage(f"--p {p} must be 1 or more, and a range must not fall")
    return lengths


def _note_long_documents(console: Console, corpus: Corpus) -> None:
    longest = max(range(len(corpus)), key=lambda i: len(corpus.texts[i]))
    length = len(corpus.texts[longest])
    if length > 100_000:
        console.say(
            f"note: {corpus.ids[longest]} has {length:,} symbols, and the time of this kernel grows with the "
            "product of lengths; --max-length bounds it, and the spectrum kernel does not mind"
        )


def _hold_out(corpus: Corpus, share: float | None, seed: int) -> tuple[Corpus, Corpus | None]:
    """Draw a stratified part of the corpus for evaluation."""
    if share is None:
        return corpus, None
    from sklearn.model_selection import train_test_split

    try:
        rest, held = train_test_split(
            range(len(corpus)), test_size=share, random_state=seed, stratify=corpus.labels
        )
    except ValueError as error:
        raise InputError(
            f"--holdout {share:g} cannot be drawn from {len(corpus)} documents: {error}"
        ) from error
    return corpus.subset(sorted(rest)), corpus.subset(sorted(held))


def _fit(
    console: Console, model: SVC, training: Corpus, held: Corpus | None, positive: str | None
) -> Results | None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from textsvm.cli.evaluate import judge

    with console.progress(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(training.texts, training.labels, progress=console.stage)
        results = None if held is None else judge(model, held, positive or model.classes_[1], console.stage)
    for warning in caught:
        console.say(f"warning: {warning.message}")
    console.say_device(model.device_)
    console.say(f"kernel matrix: {model.gram_}")
    return results


def _show(console: Console, model: SVC, report: dict[str, Any], results: Results | None) -> None:
    from textsvm.cli.evaluate import show

    solution, seconds = model.solution_, report["seconds"]
    state = "converged" if solution.converged else f"NOT converged: {solution.status}"
    console.table(
        f"model {report['model']}",
        [
            ("kernel", ", ".join(f"{name} {value}" for name, value in report["kernel"].items())),
            ("device", report["device"]),
            ("training documents", f"{report['n_train']:,}"),
            ("support vectors", f"{report['n_support']:,}"),
            ("iterations", f"{report['iterations']:,} ({state})"),
            ("objective", f"{report['objective']:.6g}, duality gap {report['duality_gap']:.2g}"),
            ("seconds", ", ".join(f"{stage} {value:.2f}" for stage, value in seconds.items())),
        ],
    )
    if results is not None:
        show(console, "holdout", results)
