"""textsvm compare: candidate kernels beside scikit-learn baselines on a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textsvm.cli import corpora, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.kernels import DEFAULTS, spelled_out
from textsvm.cli.machines import checked
from textsvm.cli.options import option
from textsvm.cli.output import Force, check_report

if TYPE_CHECKING:
    from textsvm.evaluation.comparison import Compared
    from textsvm.evaluation.opponents import Part
    from textsvm.readers.corpus import Corpus

#: Default share of the test documents.
HOLDOUT = 0.25


@dataclass(frozen=True)
class CandidateOptions:
    """Candidates and test documents."""

    kernel: Annotated[
        list[str] | None,
        option(
            "Candidate kernel, such as auto, gap:4 or spectrum:1-5,log,idf+words:1-2,log,idf. Repeatable "
            "(default: auto, fast and two more).",
            metavar="KERNEL",
        ),
    ] = None
    holdout: Annotated[
        float | None, option(f"Share of test documents (default: the test part, or {HOLDOUT:g}).")
    ] = None
    cv: Annotated[int | None, option("Number of folds, instead of one test part.")] = None
    seed: Annotated[int, option("Random seed.")] = 0
    device: options.Device = "auto"
    report: Annotated[Path | None, option("Write a web page with a chart: .html.")] = None
    force: Force = False

    def check(self, corpus: list[Path]) -> None:
        """Raise WrongUsage for options that contradict each other."""
        if self.holdout is not None and self.cv is not None:
            raise WrongUsage("--holdout and --cv do not go together")
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise WrongUsage(f"--holdout must be between 0 and 1, got {self.holdout:g}")
        if self.cv is not None and self.cv < 2:
            raise WrongUsage(f"--cv must be at least 2, got {self.cv}")
        if self.report is not None:
            check_report("--report", self.report, self.force, {"the corpus": corpus}, (".html",))


@options.with_groups
def compare(
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    judging: CandidateOptions,
    printing: options.PrintingOptions,
) -> None:
    """Compare kernels with each other and with scikit-learn: accuracy, significance and time.

    textsvm compare mails.tar.gz --kernel spectrum:1-5,log,idf --kernel gap:4 --cv 5 --report compare.html
    """
    console = Console(printing.quiet)
    judging.check(corpus)
    names = list(dict.fromkeys(judging.kernel or []))
    for name in names:
        if name not in DEFAULTS:
            spelled_out(name)

    from textsvm.evaluation.opponents import candidates, machine
    from textsvm.evaluation.opponents import compare as run_comparison
    from textsvm.runtime.device import select

    factories = {name: partial(machine, name, judging.device) for name in names}
    for make in (factories or candidates(judging.device)).values():
        checked(make)
    documents = corpora.read(console, corpus, reading, kernel=_on_columns(names))
    ours = corpora.candidates(documents, names, judging.device)
    labels = [str(label) for label in corpora.targets(documents)]
    with console.progress(), console.warnings():
        parts, how = _parts(console, documents, labels, judging)
        compared = run_comparison(documents.examples, labels, parts, ours, console.stage)
    device = select(judging.device)
    console.say_device(device)
    title = f"{corpora.names_of(corpus)}: {compared[0].n:,} documents {how}"
    if judging.report is not None:
        from textsvm.reporting.pages import write_comparison

        write_comparison(
            judging.report,
            f"Classifiers of {corpora.names_of(corpus)}",
            f"{compared[0].n:,} documents {how}",
            compared,
        )
    if printing.json:
        lines = [each.as_dict() for each in compared]
        console.print_json(
            {"corpus": documents.source, "how": how, "device": device.description, "classifiers": lines}
        )
    else:
        _show(console, title, compared)


def _on_columns(names: list[str]) -> Any:
    """First candidate whose kernel names columns."""
    kernels = [spelled_out(name) for name in names if name not in DEFAULTS]
    return next((kernel for kernel in kernels if kernel.structure.reads_tables), None)


def _parts(
    console: Console, corpus: Corpus, labels: list[str], judging: CandidateOptions
) -> tuple[list[Part], str]:
    """Training and test parts, and a description of them."""
    if judging.cv is not None:
        from textsvm.machines.classifier import Classifier
        from textsvm.selection.folds import make_folds

        folds = make_folds(judging.cv, Classifier().as_target(labels, len(labels)), random_state=judging.seed)
        return [(train.tolist(), test.tolist()) for train, test in folds], f"in {len(folds)} folds"
    if judging.holdout is None and {"train", "test"} <= set(corpus.part):
        parts = [[i for i, part in enumerate(corpus.part) if part == wanted] for wanted in ("train", "test")]
        return [(parts[0], parts[1])], f"of the test part, {len(parts[0]):,} to learn from"
    share = HOLDOUT if judging.holdout is None else judging.holdout
    place = {identifier: i for i, identifier in enumerate(corpus.ids)}
    training, held = corpora.hold_out(console, corpus, share, judging.seed)
    assert held is not None
    rows = [place[identifier] for identifier in training.ids], [place[identifier] for identifier in held.ids]
    return [rows], f"held out, {len(rows[0]):,} to learn from"


def _show(console: Console, title: str, compared: list[Compared]) -> None:
    from textsvm.evaluation.opponents import SHORT

    header = ("", "accuracy", "interval", "lead", "p", "seconds")
    rows = [(SHORT.get(each.name, each.name), *_cells(each)) for each in compared]
    console.table(title, rows, header)
    for each in compared:
        about = [f"scikit-learn, {each.name}"] * (each.name in SHORT) + [f"chose {each.chosen}"] * bool(
            each.chosen
        )
        if about:
            console.line(f"{SHORT.get(each.name, each.name)}: {'; '.join(about)}")
    console.line("accuracy in %; interval: 95 %; lead: points over opponent 1, p of an exact McNemar test")


def _cells(each: Compared) -> tuple[str, ...]:
    low, high = each.interval
    paired = each.paired
    return (
        f"{100 * each.accuracy:.2f}",
        f"{100 * low:.1f}-{100 * high:.1f}",
        "" if paired is None else f"{100 * paired.difference:+.2f}",
        "" if paired is None else f"{paired.p_value:.2g}",
        f"{each.seconds:.2f}",
    )
