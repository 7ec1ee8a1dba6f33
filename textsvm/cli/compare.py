"""textsvm compare: candidate kernels beside scikit-learn baselines on a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.machines import DEFAULTS, KERNEL_NAMES, spelled_out
from textsvm.cli.options import option_field
from textsvm.cli.output import Force, check_report, writing
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.evaluation.comparison import ClassifierScore


@dataclass(frozen=True)
class CandidateOptions:
    """Candidates and test documents."""

    cutting: options.CuttingOptions
    kernel: list[str] | None = option_field(
        "Candidate kernel, such as auto, gap:4 or spectrum:1-5,log,idf+words:1-2,log,idf. Repeatable "
        "(default: auto, fast and two more).", "--kernel", metavar="KERNEL",
        autocompletion=lambda: KERNEL_NAMES,
    )  # fmt: skip
    encoder: str | None = option_field(
        "Also compare each kernel with an encoder added, of model2vec, sentence-transformers or ONNX.",
        metavar="FOLDER|OWNER/NAME",
    )
    holdout: float | None = option_field(
        "Share of test documents (default: the test part, else folds below 400 documents, 0.25 above)."
    )
    cv: int | None = option_field("Number of folds, instead of one test part.", min=2)
    device: options.Device = "auto"
    report: Path | None = option_field("Write a web page with a chart: .html.")
    force: Force = False

    def check(self, corpus: list[Path]) -> None:
        """Raise WrongUsage for options that contradict each other."""
        if self.holdout is not None and self.cv is not None:
            raise WrongUsage("--holdout and --cv do not go together")
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise WrongUsage(f"--holdout must be between 0 and 1, got {self.holdout:g}")
        if self.report is not None:
            check_report("--report", self.report, self.force, {"the corpus": corpus}, (".html",))


@partial(
    options.with_groups, without={"annotators", "headers", "labels", "negative", "numbers", "vectors", "id"}
)
def compare(
    corpus: options.CorpusPath, reading: options.ReadingOptions, judging: CandidateOptions,
    printing: options.PrintingOptions,
) -> None:  # fmt: skip
    """Compare kernels with each other and with scikit-learn: accuracy, significance and time.

    textsvm compare mails.tar.gz --kernel spectrum:1-5,log,idf --kernel gap:4 --cv 5 --report compare.html
    """
    console = Console(printing.quiet)
    judging.check(corpus)
    names, device = list(dict.fromkeys(judging.kernel or [])), judging.device
    kernels = {x: None if x in DEFAULTS else spelled_out(x) for x in names}

    from textsvm.cli import corpora, settings
    from textsvm.evaluation import baselines
    from textsvm.model.settings import ClassifierSettings
    from textsvm.reporting import pages
    from textsvm.runtime.device import select

    encoder = settings.encoder_of(judging.encoder, kernels.values())
    candidates = baselines.candidates(device, names, encoder, judging.encoder or "")
    for make in candidates.values():
        settings.checked(make)
    on_columns = (kernel for kernel in kernels.values() if kernel and kernel.structure.reads_tables)
    documents = corpora.read(console, corpus, reading, kernel=next(on_columns, None))
    documents = corpora.cut(console, documents, judging.cutting)
    examples = documents.examples
    if encoder is not None and examples is not documents.texts:
        raise InputError(f"{documents.source} holds no single texts, which --encoder reads; leave it out")
    if not names and examples is not documents.texts:
        names = ["fast"] if isinstance(examples, dict) else ["gaussian", "linear"]
        kernels = {x: None if x in DEFAULTS else spelled_out(x) for x in names}
        candidates = baselines.candidates(device, names)
    for name, kernel in kernels.items():
        if suitable := settings.kernel_for(kernel, documents):
            candidates[name] = partial(ClassifierSettings, suitable, device=device)
    labels = [str(label) for label in corpora.targets(documents)]
    corpora.check_classes(documents, reading.label)
    corpora.say_encoder(console, documents, encoder, *kernels.values())
    with console.progress(), console.warnings():
        parts, how = corpora.comparison_parts(console, documents, labels, judging.cv, judging.holdout)
        compared = baselines.compare(examples, labels, parts, candidates, console.stage, documents.groups)
    seconds = console.lap("compare")
    console.say_device(used := select(device))
    title = f"Classifiers of {corpora.names_of(corpus)}"
    lead = f"{compared[0].n:,} {'documents' if documents.piece_of is None else 'pieces'} {how}"
    if judging.report is not None:
        with writing(judging.report) as stream:
            body = [pages.accuracy_chart(compared), pages.comparison_table(compared)]
            stream.write(pages.page(title, lead, body))
    if printing.json:
        lines = [entry.as_dict() for entry in compared]
        facts = {"corpus": documents.source, "reading": documents.reading, "how": how}
        console.print_json({**facts, "device": used.description, "seconds": seconds, "classifiers": lines})
    else:
        test = pages.name_of_test(compared[0].n_groups)
        _show(console, f"{corpora.names_of(corpus)}: {lead}", compared, test)
        if (n := compared[0].n_groups or compared[0].n) < corpora.FEW:
            width = f"each accuracy is certain to ±{98 / n**0.5:.0f} points or better"
            kind = "documents" if compared[0].n_groups is None else "groups"
            console.line(f"{n:,} test {kind} are few: {width}, and small leads are chance")


def _show(console: Console, title: str, compared: list[ClassifierScore], test: str) -> None:
    header = ("", "accuracy", "interval", "lead", "p", "seconds")
    rows = []
    for entry in compared:
        interval, lead = "-".join(f"{100 * bound:.1f}" for bound in entry.interval), ("", "")
        if entry.paired is not None:
            lead = (f"{100 * entry.paired.difference:+.2f}", f"{entry.paired.p_value:.2g}")
        rows.append((entry.name, f"{100 * entry.accuracy:.2f}", interval, *lead, f"{entry.seconds:.2f}"))
    console.table(title, rows, header)
    for entry in compared:
        if entry.chosen:
            console.line(f"{entry.name}: {entry.chosen}")
    console.line(f"accuracy in %; interval: 95 %; lead: points over {compared[0].name}, p: {test}")
