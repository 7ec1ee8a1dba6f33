"""textsvm explain: a model and documents -> the symbols and training documents that decide."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option_field
from textsvm.cli.output import REPORTS, Force, Kind, Output
from textsvm.errors import first_few, plural, printable
from textsvm.reporting.formatting import label_text, runs, sides, visible
from textsvm.reporting.tables import DIALECTS, json_line, line_of

if TYPE_CHECKING:
    from textsvm.evaluation.explanation import Explanation, Substring
    from textsvm.model.top_features import Feature, TopFeatures
    from textsvm.model.trained import TrainedModel
    from textsvm.readers.corpus import Corpus

FEATURES = Kind("a table of features", rb"class\tkind\tfeature\tweight\tmerged\n", ".tsv")
FEATURE_LINES = Kind("features as JSON Lines", rb'\{"label": [^\n]*"features": ', ".jsonl")

#: Background colours of the steps for and against a class, for terminals with 256 colours.
FOR, AGAINST = ("on #fbe5d6", "on #f6c7a5", "on #f0a26b", "on #e67e36"), (
    "on #d6e8f4", "on #a9cfe8", "on #74b1d9", "on #3f92c9",
)  # fmt: skip
SHOWN = 200  #: Most symbols shown of a similar document.
MAX_SHOWN = 5  #: Most documents that are explained one by one in the terminal.
LISTED = 12  #: Substrings that are listed of a document.


@dataclass(frozen=True)
class ExplainOptions:
    """Lengths of lists, and the output file."""

    top: int | None = option_field(
        "List the N features with the largest weights for each class.", min=1, metavar="N"
    )
    similar: int = option_field("Number of similar training documents to list.", min=0, default=5)
    output: Path | None = option_field(
        "Page of explained documents, .html; with --top a table of the features, or JSON Lines with --json.",
        "--output", "-o", show_default="-",
    )  # fmt: skip
    force: Force = False

    def checked(self, json: bool, model: Path, files: list[str] | None) -> Output | None:
        """Output file; raises WrongUsage for options that contradict each other."""
        if self.top is not None and files:
            raise WrongUsage("--top reads only the model; give no documents")
        if self.output is None:
            return None
        kind = FEATURE_LINES if json else FEATURES
        if self.top is None:
            if self.output.suffix.lower() != ".html":
                raise WrongUsage(
                    f"-o {self.output}: the name of a page must end in .html; -o of features needs --top"
                )
            kind = REPORTS[".html"]
        return Output("-o", self.output, kind, self.force).checked({"the model": model})


@partial(options.with_groups, without={"numbers", "id"})
def explain(
    model: options.ModelPath, table: options.TableOptions, printing: options.PrintingOptions,
    explain_options: ExplainOptions, files: options.DocumentPaths = None,
) -> None:  # fmt: skip
    """Explain a model (--top), or predictions: the coloured text, and the most similar training documents.

    textsvm explain spam.textsvm --top 30 -o features.tsv

    textsvm explain spam.textsvm message.eml -o message.html

    For spectrum, gapped and gap-weighted kernels the contributions are exact and sum to the decision value.
    --json prints one object per line, with the contribution of every symbol. Of many documents the terminal
    shows a summary and the first few.
    """
    output = explain_options.checked(printing.json, model, files)
    console = Console(printing.quiet, output is not None and output.is_stdout)

    from textsvm.cli import corpora, model_files
    from textsvm.evaluation import drift, explanation

    fitted = model_files.load_model(console, model, "cpu")
    training = model_files.RecordedOptions.of(fitted)
    if explain_options.top is not None:
        top_features = fitted.top_features(explain_options.top)
        console.lap("features")
        if output is not None:
            _write_top(output, top_features, printing.json)
        for side in top_features if output is None else ():
            name = printable(str(side.label))
            if printing.json:
                console.print_json(side.as_dict())
            elif side.features:
                rows = [(visible(x.text[:SHOWN]), f"{x.weight:.4f}", _merged(x)) for x in side.features]
                console.table(f"{name}: {side.kind}", rows, ("", "weight", "merged"))
                console.line(f"{_LEGEND.get(side.kind, 'weight: for this class against the others')}\n")
            else:
                console.line(f"{name}: no {side.kind}\n")
        console.lap("print")
        return
    recorded = {"headers": training.headers, "recorded": training.columns}
    documents = corpora.read_unlabelled(
        console, files or ["-"], table, fitted.kernel, training.of_files, **recorded
    )
    corpora.check_letters(console, fitted.kernel, documents)
    console.say(*(f"note: {identifier}: {problem}" for identifier, problem in documents.problems))
    short = drift.ShortTexts(drift.SupportSymbols(fitted))
    short.add(documents.ids, documents.texts)
    if short.finding:
        console.warn(short.finding)
    if fitted.pieces is not None:  # the value of a text is the mean of theirs
        documents, fitted = documents.cut(fitted.pieces), replace(fitted, pieces=None)
    fitted, texts = model_files.examples_for(fitted, documents)
    with console.work():
        explained = explanation.explain(
            fitted, texts, positive=training.positive,
            substrings=LISTED, similar=explain_options.similar, progress=console.progress_of("explain"),
        )  # fmt: skip
    console.lap("explain")
    if explain_options.similar and fitted.support.weights is not None:
        console.say("note: the model was saved without texts, so no training documents are listed")
    if output is not None:
        _write_page(output, model.name, fitted, documents, explained)
    if printing.json:
        for identifier, result in zip(documents.ids, explained, strict=True):
            console.print_json({"id": identifier, **result.as_dict()})
    elif len(explained) > MAX_SHOWN:
        _show_summary(console, explained)
    for identifier, result in zip(documents.ids[:MAX_SHOWN], explained, strict=False):
        if not printing.json:
            _show(console, identifier, result, whole=output is None)
    console.lap("print")
    if (more := len(explained) - MAX_SHOWN) > 0 and not printing.json:
        console.say(f"note: {more:,} more documents are not shown; --json prints all")


def _write_page(
    output: Output, name: str, model: TrainedModel, documents: Corpus, explained: Sequence[Explanation]
) -> None:
    """Write all explained documents as a page."""
    from textsvm.reporting import html, maps, sections

    articles = [maps.rolling_section(model, documents, explained)]
    articles += [sections.explanation_section(*pair) for pair in zip(documents.ids, explained, strict=True)]
    lead = f"{plural(len(explained), 'document')} explained by {name}"
    output.write_lines([html.page(f"Predictions of {name}", lead, articles)])


def _show(console: Console, identifier: str, explanation: Explanation, whole: bool) -> None:
    """Print an explanation, or its first line."""
    head = Text(printable(f"{identifier}: {label_text(explanation.prediction)}"), style="bold")
    if explanation.towards is not None:
        head.append(printable(f"  ({explanation.verdict})"), style="not bold dim")
    console.stdout.print(head, soft_wrap=True)
    if not whole:
        return
    console.stdout.print(coloured(explanation), soft_wrap=True)
    console.stdout.print(legend(explanation), soft_wrap=True)
    if explanation.merged:
        rows = [
            (visible(piece.text), f"{piece.count}", f"{piece.contribution:+.4f}", _merged(piece))
            for piece in explanation.merged
        ]
        console.table(explanation.kind, rows, ("", "times", "contribution", "merged"))
    if explanation.parts:
        console.line(printable(explanation.shares))
    lists = [(f"training documents by {part.name}", part.similar) for part in explanation.parts]
    for title, texts in lists or [("training documents", explanation.similar)]:
        similar = [(text.name, f"{text.kernel:.3f}", f"{text.contribution:+.4f}") for text in texts]
        if similar:
            console.table(title, similar, ("document", "similarity", "contribution"))
        for text in texts:
            shown = f"{printable(text.text[:SHOWN])}{' …' * (len(text.text) > SHOWN)}"
            console.line(f"{printable(text.name)}: {shown}")
    console.line("")


#: Meaning of the weights in a list of features, where more is to be said than of words.
_LEGEND = {
    "substrings": "weight: of the heaviest of the merged substrings, for this class against the others",
    "counted substrings": "weight: of the heaviest of the merged substrings; >=2: of the second occurrence",
    "counted words": "weight: for this class against the others; a space joins words, even where a text has "
    "none; >=2: of the second occurrence",
    "words": "weight: for this class against the others; a space joins words, even where a text has none",
    "tokens": "weight: divided by the number of tokens of a text; ## continues a word; tokens of the texts "
    "in the model, or of the encoder if it has none",
    "numbers": "weight: for this class against the others; x0, x1 and so on are the numbers of vectors",
    "patterns": "weight: sum of the contributions to the support vectors; . stands for any symbol",
    "training documents": "weight: dual coefficient; the kernel has no list of features to weigh",
}


def _write_top(output: Output, top_features: Sequence[TopFeatures], json: bool) -> None:
    """Write the features of all classes, as a tab-separated table or as JSON Lines."""
    if json:
        output.write_lines(json_line(side.as_dict()) for side in top_features)
        return
    rows = (
        (side.label, side.kind, feature.text, f"{feature.weight:.9g}", " | ".join(feature.merged))
        for side in top_features
        for feature in side.features
    )
    lines = (line_of([printable(str(cell)) for cell in row], *DIALECTS["tsv"]) + "\n" for row in rows)
    output.write_lines(chain(["class\tkind\tfeature\tweight\tmerged\n"], lines))


def _merged(feature: Feature | Substring) -> str:
    return first_few(list(map(visible, feature.merged)), 6)


def _show_summary(console: Console, explained: Sequence[Explanation]) -> None:
    """Print the number of documents of each prediction, and the substrings that contribute most in all."""
    if explained[0].towards is not None:
        counts = Counter(label_text(explanation.prediction) for explanation in explained)
        rows = [(printable(label), f"{count:,}") for label, count in counts.most_common()]
        console.table(f"{len(explained):,} documents", rows, ("prediction", "documents"))
    totals: dict[object, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    documents: Counter[tuple[object, str]] = Counter()
    for explanation in explained:
        for substring in explanation.merged:
            totals[explanation.towards][substring.text] += substring.contribution
            documents[explanation.towards, substring.text] += 1
    for label, sums in totals.items():
        order = sorted(sums, key=lambda text: -abs(sums[text]))[:LISTED]
        largest = [(visible(text), f"{documents[label, text]:,}", f"{sums[text]:+.4f}") for text in order]
        name = f"{explained[0].kind} for {'higher numbers' if label is None else printable(str(label))}"
        console.table(f"{name} in all documents", largest, ("", "documents", "contribution"))


def coloured(explanation: Explanation) -> Text:
    """Text with the contribution of each symbol as its background colour."""
    text = Text()
    for piece, step in runs(explanation.text, explanation.symbols):
        style = "" if not step else f"black {FOR[step - 1] if step > 0 else AGAINST[-step - 1]}"
        text.append(printable(piece), style=style)
    return text


def legend(explanation: Explanation) -> Text:
    """Legend of the colours."""
    towards, away = map(printable, sides(explanation))
    how = explanation.method.description
    return Text.assemble(
        ("   ", FOR[3]), f" for {towards}  ", ("   ", AGAINST[3]), f" for {away}; {how}", style="dim"
    )
