"""What a prediction may promise: sets that hold the true class, and texts like no class told as such."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from textsvm.errors import InputError

_PANEL = "Promises (of a calibrated model)"


@dataclass(frozen=True)
class Promises:
    """What a calibrated model says besides, and promises of documents that are like the training texts."""

    proba: Annotated[
        bool, typer.Option("--proba", help="Give the probability of each class; needs a calibrated model.")
    ] = False
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help='Give the "set" of classes that holds the true one so often, such as 0.95.',
            rich_help_panel=_PANEL,
        ),
    ] = None
    per_class: Annotated[
        bool,
        typer.Option(
            "--per-class",
            help="--coverage: promise it for the documents of each class; classes of few training texts are "
            "in every set then.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    none: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Documents unlike every class get no label (null); at most this share of the documents of "
            "the classes, such as 0.05.",
            rich_help_panel=_PANEL,
        ),
    ] = None

    @property
    def made(self) -> bool:
        """Whether any is asked for."""
        return self.per_class or self.coverage is not None or self.none is not None

    def require(self, model: Any, path: Path) -> None:
        """Raise InputError, before documents are read, if a model or an option cannot do it."""
        from textsvm.cli.console import WrongUsage
        from textsvm.selection.conformal import require_share

        if self.per_class and self.coverage is None:
            raise WrongUsage("--per-class goes with --coverage")
        for option, value in (("--coverage", self.coverage), ("--none", self.none)):
            if value is None:
                continue
            try:
                require_share(option, value)
            except InputError as error:
                raise WrongUsage(str(error).replace("=", " ", 1)) from error
            if not hasattr(model, "require_conformity"):
                raise InputError(
                    f"{path} promises nothing ({option}); train a classifier with "
                    "`textsvm train --calibrate sigmoid`"
                )
            model.require_conformity()

    def kept(self, model: Any, found: Any, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows of documents with their sets, and without a label where they are like no class.

        Parameters
        ----------
        model : CalibratedSVC
        found : object with `decision` and `probability`, arrays of the same documents
        rows : iterable of dict
        """
        if self.coverage is None and self.none is None:
            yield from rows
            return
        names, conformity = [str(label) for label in model.classes_], model.require_conformity()
        sets = known = None
        if self.coverage is not None:
            sets = conformity.sets(found.probability, self.coverage, self.per_class).tolist()
        if self.none is not None:
            known = conformity.known(found.decision, self.none).tolist()
        for i, row in enumerate(rows):
            if sets is not None:
                row = {**row, "set": [name for name, held in zip(names, sets[i], strict=True) if held]}
            yield row if known is None or known[i] else {**row, "label": None}
