"""textsvm label: active learning on a page in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option, option_field
from textsvm.cli.output import Force, Kind, Output, writing
from textsvm.errors import InputError, first_few, printable

if TYPE_CHECKING:
    from textsvm import Corpus
    from textsvm.apps.label.session import Session
    from textsvm.arrays import Json

STRATEGIES = ("mixture", "margin", "random")  #: `relevance` is that of --relevant.
LABELS = Kind("labels of textsvm label", rb'\{"id": [^\n]*"chosen": ', ".jsonl", to_stdout=False)
#: Files of --export, by their beginning.
EXPORT = Kind("labelled texts", rb'id,label,part,text\n|\{"id": |\[\s*\{\s*"data": ')


@dataclass(frozen=True)
class LabellingOptions:
    """Labels and order of the texts."""

    output: Path | None = option_field("File of labels, JSON Lines, for `textsvm train`.", "-o", "--output")
    comma_labels: str | None = option_field(
        "Labels, with commas between; the page can add more.", "--labels", metavar="NAMES"
    )
    multilabel: bool = option_field("Allow several labels per text.", "--multilabel", default=False)
    strategy: str = option_field(
        "Which text comes next: mixture (of uncertain and typical texts), margin (uncertain ones) or random.",
        default=STRATEGIES[0],
    )
    relevant: str | None = option_field(
        "Find the texts of this label: likely ones come first, and the page says when to stop.",
        metavar="LABEL",
    )
    encoder: str | None = options.encoder_field()
    shared: float | None = option_field(
        "The page asks for names, and two people get this share of the texts (default: 0.1 with two names).",
        metavar="SHARE", min=0, max=1,
    )  # fmt: skip
    suggest: str | None = option_field("Tables: column of suggested labels, as of rules.", metavar="COLUMN")

    def check(self, corpus: list[Path]) -> None:
        """Raise WrongUsage for an unknown label or strategy, or a file of labels among the texts."""
        if self.strategy not in STRATEGIES:
            raise WrongUsage(f"--strategy {self.strategy} is not one of {', '.join(STRATEGIES)}")
        if self.relevant is not None and self.strategy != STRATEGIES[0]:
            raise WrongUsage("--relevant has an order of its own: leave out --strategy")
        if long := next((name for name in self.names() if len(name) > 100), None):
            raise WrongUsage(
                f"--labels: a label has at most 100 characters, and {long[:20]}... has {len(long):,}"
            )
        if self.relevant is not None and self.names() and self.relevant not in self.names():
            raise WrongUsage(f"--relevant {self.relevant} is not one of --labels {self.comma_labels}")
        place = Path(self.output or "").absolute()
        for folder in corpus:
            if folder.is_dir() and place.is_relative_to(folder.absolute()):
                raise WrongUsage(f"-o {self.output} is in the folder of texts {folder}; name another file")

    def names(self) -> list[str]:
        """Labels of the option."""
        names = (" ".join(printable(name).split()) for name in (self.comma_labels or "").split(","))
        return list(dict.fromkeys(filter(None, names)))


@dataclass(frozen=True)
class ExchangeOptions:
    """Files of other programs."""

    import_: Path | None = option_field(
        "Take over labels of a file: a table, or an export of Label Studio, Prodigy, doccano or Argilla.",
        "--import", metavar="FILE",
    )  # fmt: skip
    export: Path | None = option_field(
        "Write the labelled texts of CORPUS, such as labels.jsonl, into this file, without a page: .jsonl, "
        ".csv, or .json for Label Studio.",
        metavar="FILE",
    )
    force: Force = False


@dataclass(frozen=True)
class TextReading(options.TableOptions):
    """Reading of the texts."""

    text: list[str] | None = option_field("Tables: text column; repeat it to join several.", metavar="COLUMN")
    label: str | None = option_field("--import, --export: label column.", metavar="COLUMN")

    def as_dict(self, several: bool) -> Json:
        """Arguments of the readers."""
        text = None if self.text is None else ",".join(self.text)
        names = ("format", "label", "id", "skip_invalid", "sheet", "encoding")
        form = self.form | {"label_separator": "" if several else None}
        return {name: vars(self)[name] for name in names} | form | {"text": text}


@partial(options.with_groups, without={"numbers", "vectors"})
def label(
    corpus: options.CorpusPath, labelling: LabellingOptions, exchange: ExchangeOptions, reading: TextReading,
    port: Annotated[int, option("Port of the page; 0 is a free port.", min=0, max=65535)] = 0,
    quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Label texts on a page in the browser; a classifier learns from them and chooses the next text.

    textsvm label texts -o labels.jsonl --labels spam,ham

    textsvm label labels.jsonl --export tasks.json

    Each answer is on disk before the next text is shown; the same command goes on after an interruption.
    `textsvm train labels.jsonl` trains on the labels. Ctrl-C ends the server.
    """
    console = Console(quiet)
    if exchange.export is not None:
        if exchange.import_ is not None:
            raise WrongUsage(
                "--import and --export do not go together: --import takes labels over into -o, and opens the "
                f"page; to convert a file, `textsvm label {exchange.import_} --export {exchange.export}`"
            )
        if port or replace(labelling, multilabel=False) != LabellingOptions():
            raise WrongUsage("--export opens no page: of the page's options it takes --multilabel alone")
        _export(console, corpus, exchange, reading, labelling.multilabel)
        return
    if labelling.output is None:
        raise WrongUsage("name the file of labels: -o labels.jsonl")
    labelling.check(corpus)
    if reading.label is not None and exchange.import_ is None:
        raise WrongUsage("--label is for --import and --export; --labels has the labels")
    output = Output("-o", labelling.output, LABELS, exchange.force)
    output.checked({"the corpus": corpus, "the imported file": exchange.import_})
    _serve(console, port, partial(_session, console, corpus, labelling, exchange, reading))


def _export(
    console: Console, corpus: list[Path], exchange: ExchangeOptions, reading: TextReading, several: bool
) -> None:
    from textsvm.apps.label import files as formats

    assert exchange.export is not None
    suffix = exchange.export.suffix.lower()
    if suffix not in formats.FORMATS:
        raise WrongUsage(f"--export {exchange.export}: the suffix is not one of {', '.join(formats.FORMATS)}")
    output = Output("--export", exchange.export, EXPORT, exchange.force).checked({"the corpus": corpus})
    if formats.journal_of(exchange.export).exists():
        raise WrongUsage(f"--export {exchange.export} has a journal of answers beside it; name another file")
    settings = reading.as_dict(several)
    texts = [text for path in corpus for text in formats.read_labelled(path, **settings)]
    content = formats.FORMATS[suffix](texts)
    with output.place() as path, writing(path) as stream:
        stream.write(content)
    n_undecided = sum(text.label is None and not text.decided for text in texts)
    said = f"note: {sum(text.label is not None for text in texts):,} labelled texts are in {exchange.export}"
    if n_undecided:
        said += f"; {n_undecided:,} more have no label that counts: review them"
    console.say(said)


def _session(
    console: Console, paths: list[Path], labelling: LabellingOptions, exchange: ExchangeOptions,
    reading: TextReading,
) -> Session:  # fmt: skip
    from textsvm.apps.label import files, learner, session
    from textsvm.cli.settings import encoder_of

    assert labelling.output is not None
    encoder = encoder_of(labelling.encoder, [])
    corpus, suggestions = _read(console, paths, reading, labelling)
    imported, texts = exchange.import_, None
    if imported is not None:
        # Texts are matched by their content.
        settings = reading.as_dict(labelling.multilabel) | {"id": None, "format": None}
        try:
            texts = files.read_labelled(imported, **settings)
        except InputError:  # --text may name the column of the corpus alone
            if reading.text is None:
                raise
            texts = files.read_labelled(imported, **{**settings, "text": None})
    journal = files.Journal(labelling.output, labelling.multilabel, replace=exchange.force)
    if journal.repaired:
        console.say(f"note: the last line of {journal.journal_path} was cut off, as by a crash, and removed")
    console.say(f"note: preparing {len(corpus):,} texts")
    chooser = learner.Learner(
        corpus.texts, journal.with_labels(labelling.names()), multilabel=labelling.multilabel,
        strategy=labelling.strategy, relevant=labelling.relevant, encoder=encoder,
    )  # fmt: skip
    outside = Counter(name for names in suggestions.values() for name in {*names} - {*chooser.labels})
    if outside and chooser.labels:
        names = first_few([name for name, _ in outside.most_common()])
        console.say(
            f"note: {outside.total():,} suggestions are none of the labels: {names}; the page shows them, "
            "and they are learnt once a text has such a label"
        )
    work = session.Session(corpus, journal, chooser, labelling.shared, suggestions)
    if imported is not None and texts is not None:
        is_table = imported.suffix.lower() in (".csv", ".tsv", ".tab")
        n = work.add_labelled(files.with_restored(texts) if is_table else texts)
        missing = "" if n else "; texts are matched by their content, and none of these is in the corpus"
        console.say(f"note: {n:,} texts got a label of {imported}, which has {len(texts):,}{missing}")
    return work


def _read(console: Console, paths: list[Path], reading: TextReading, labelling: LabellingOptions
) -> tuple[Corpus, dict[str, list[str]]]:  # fmt: skip
    """Read the texts, and suggested labels by id."""
    from textsvm.cli import corpora

    settings = reading.as_dict(several=False)
    settings |= {"labelled": False, "require_text": True, "keep_rows": labelling.suggest is not None}
    settings["label"] = None  # with --import, a column of that file
    with console.progress():
        documents = corpora.stream_corpus(paths, progress=console.progress_of("read"), **settings)
        if documents.format == "file" != reading.format:
            raise InputError(f"{documents.source} is one text; --format lines reads a text per line")
        corpus = documents.stored()
    filled = [i for i, text in enumerate(corpus.texts) if text.strip()]
    if not filled:
        raise WrongUsage(f"{corpus.source} holds no texts")
    console.say(corpus.reading_line)
    corpora.say_problems(console, corpus)
    cells = [str((row or {}).get(labelling.suggest or "") or "") for row in corpus.rows or ()]
    if labelling.suggest is not None and not any(cells):
        raise WrongUsage(f"--suggest: {corpus.source} has no column {labelling.suggest} with labels")
    names = [cell.split(";") if labelling.multilabel else [cell] for cell in cells]
    suggestions = dict(zip(corpus.ids, ([*filter(None, map(str.strip, x))] for x in names), strict=False))
    # `train` refuses empty documents
    return corpus if len(filled) == len(corpus) else corpus.subset(filled), suggestions


def _serve(console: Console, port: int, prepare: Callable[[], Session]) -> None:
    from textsvm.apps.label.app import LabellingPage, http

    listening = http.listen("127.0.0.1", port)
    page = LabellingPage(session := prepare())
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/{page.token}/"
    # A browser on the terminal would hide the messages.
    has_desktop = sys.platform in ("win32", "darwin") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        console.line(f"label at {address}")
        sys.stdout.flush()
        if console.stderr.is_terminal and has_desktop:
            webbrowser.open(address)
        yield

    with suppress(KeyboardInterrupt):  # before the server watches for it
        http.run(page, listening, running())
    console.say(*session.close())
