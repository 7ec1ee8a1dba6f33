"""The option of commands whose work can be spread over several machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from textsvm.cli.console import WrongUsage
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.console import Console


@dataclass(frozen=True)
class Cluster:
    """Who else works."""

    workers: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|local",
            help="Spread the work over the workers of a Dask scheduler, such as tcp://HOST:8786, or over a "
            "process for each core of this machine.",
            show_default=False,
        ),
    ] = None

    def check(self) -> None:
        """Wrong usage, before any work."""
        from textsvm.runtime.workers import require_dask

        if self.workers is not None:
            try:
                require_dask()
            except InputError as error:
                raise WrongUsage(f"--workers {self.workers}: {error}") from error

    @contextmanager
    def at_work(self, console: Console) -> Iterator[None]:
        """Inside of the block, workers do what can be split."""
        if self.workers is None:
            yield
            return
        from textsvm.runtime.workers import on_workers

        with on_workers(self.workers) as workers:
            console.say(f"workers: {workers.description}")
            yield
