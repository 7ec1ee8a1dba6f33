"""Where a command writes: what may be replaced is checked before any work, and - is standard output."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from textsvm.cli.console import WrongUsage
from textsvm.errors import InputError
from textsvm.runtime.files import target_of

STDOUT = Path("-")
#: Bytes of an existing file that tell what it is.
_HEAD = 65_536

Force = Annotated[bool, typer.Option("--force", help="Replace an existing file of another kind too.")]


@dataclass(frozen=True)
class Kind:
    """A kind of output.

    Attributes
    ----------
    name : str
        With its article, for people.
    beginning : bytes
        A regular expression that the beginning of every such file matches.
    suffix : str
        Of a file that is written on its way to standard output.
    to_stdout : bool
        Whether it can be written there.
    """

    name: str
    beginning: bytes
    suffix: str = ""
    to_stdout: bool = True


MODEL = Kind("a textsvm model", rb'.{8}\{.*"textsvm":')
NPY = Kind("a NumPy array", rb"\x93NUMPY", ".npy")
NPZ = Kind("a NumPy .npz file", rb"PK\x03\x04.{26}[\w.]+\.npy", ".npz")
NAMES = Kind("names as JSON Lines", rb'"[^\n]*"\n', ".jsonl")
LIBSVM = Kind("a kernel matrix in LIBSVM's format", rb"\s*[-+.\deE]+ 0:\d")
VECTORS = Kind("vectors in LIBSVM's format", rb"[-+.\deE,]+( [1-9]\d*:[-+.\deE]+)*\n", ".libsvm")
LIBSVM_MODEL = Kind("a model of LIBSVM's", rb"svm_type \w+\r?\nkernel_type ", ".model")
SEARCH = Kind("a table of textsvm tune", rb'\{"textsvm tune": ', to_stdout=False)
PREDICTIONS = Kind("predictions as JSON Lines", rb'\{"id": ', ".jsonl")
NEIGHBOURS = Kind("neighbours as JSON Lines", rb'\{"id": [^\n]*"neighbour": ', ".jsonl")
DOUBTS = Kind("doubtful labels as JSON Lines", rb'\{"id": [^\n]*"suggested": ', ".jsonl")
REPORTS = {
    ".html": Kind("a textsvm report", rb"<!doctype html>.{0,400}script-src 'sha256-", to_stdout=False),
    ".md": Kind("a textsvm report", rb"# [^\n]*\n\n[\d,]+ documents\.", to_stdout=False),
    ".json": Kind("a textsvm report", rb'\{\s*"title": ', to_stdout=False),
}
REPORTS[".htm"] = REPORTS[".html"]
PICTURES = {
    ".png": Kind("a PNG picture", rb"\x89PNG", to_stdout=False),
    ".svg": Kind("an SVG picture", rb"(<\?xml[^>]*>\s*)?<(!DOCTYPE )?svg", to_stdout=False),
    ".pdf": Kind("a PDF", rb"%PDF", to_stdout=False),
}


@dataclass(frozen=True)
class Output:
    """A file that a command is to write, or standard output.

    Attributes
    ----------
    option : str
        That names it.
    path : Path
        ``-`` is standard output.
    kind : Kind
    force : bool
        Whether an existing file of another kind may be replaced.
    """

    option: str
    path: Path
    kind: Kind
    force: bool = False

    @property
    def is_stdout(self) -> bool:
        return self.path == STDOUT

    def check(self, inputs: Mapping[str, Path | list[Path] | None]) -> None:
        """Raise WrongUsage, before any work, if this output cannot or must not be written.

        Parameters
        ----------
        inputs : mapping of str to path
            Files and folders that the command reads or writes besides, under their names for people.
        """
        if self.is_stdout:
            if not self.kind.to_stdout:
                raise WrongUsage(
                    f"{self.option} - is standard output, and {self.kind.name} has a form that the ending of "
                    "its name tells; name a file"
                )
            return
        try:
            target = target_of(self.path)
        except InputError as error:
            raise WrongUsage(f"{self.option}: {error}") from error
        if not target.parent.is_dir():
            raise WrongUsage(f"the folder of the output, {target.parent}, is not there; create it first")
        named = (
            (name, [given] if isinstance(given, Path) else given or []) for name, given in inputs.items()
        )
        for name, path in ((name, path) for name, paths in named for path in paths):
            if _is_part_of(target, path):
                raise WrongUsage(f"{self.option} {self.path} would replace {name}, {path}; name another file")
        if not self.force and not _begins(target, self.kind.beginning):
            raise WrongUsage(
                f"{self.option} {self.path} is there and is not {self.kind.name}; name another file, or say "
                "--force to replace it"
            )
        if not os.access(target.parent, os.W_OK):
            raise InputError(f"cannot write into the folder of the output, {target.parent}")

    @contextmanager
    def place(self) -> Iterator[Path]:
        """The path to write to; what is there afterwards goes to standard output where that was asked for."""
        if not self.is_stdout:
            yield self.path
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"output{self.kind.suffix}")
            yield path
            sys.stdout.flush()
            with open(path, "rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def _is_part_of(target: Path, given: Path) -> bool:
    """Whether a file is `given` or one of the files in that folder, by whatever name."""
    from textsvm.readers.files import walk

    if os.path.realpath(given) == str(target):
        return True
    with suppress(OSError):  # what cannot be looked at is told when it is read
        if target.exists():
            files = [path for path, _ in walk(given)] if given.is_dir() else [given]
            return any(os.path.samefile(target, path) for path in files)
    return False


def _begins(path: Path, beginning: bytes) -> bool:
    """Whether a file begins so; what is not there or empty can be anything."""
    if not path.exists() or not path.stat().st_size:
        return True
    try:
        with open(path, "rb") as stream:
            return re.match(beginning, stream.read(_HEAD), re.DOTALL) is not None
    except OSError:
        return False
