"""The table that a search is resumed from."""

import random
import tempfile
from functools import cache
from pathlib import Path

from textsvm import SVC, Spectrum, tune

from ._mutations import mutated
from ._reading import judge, written

TEXTS = [f"{word} {i}" for i in range(6) for word in ("red green", "cold warm")]
LABELS = ["a", "b"] * 6
TOKENS = (
    *(
        b'{"setting": ',
        b'"folds": [',
        b'"seconds": ',
        b"{}",
        b"[]",
        b"null",
        b"NaN",
        b'"',
        b"}",
        b"]",
        b"1e999",
        b'"f1"',
    ),
    *(b'{"a":', b"[[", b"-1", b"\n\n", b'"accuracy"'),
)


def _tune(path: Path) -> None:
    tune(SVC(Spectrum(2), device="cpu"), TEXTS, LABELS, grid={"C": [1, 10]}, cv=2, resume=path)


@cache
def table() -> bytes:
    """A whole table."""
    with tempfile.TemporaryDirectory() as folder:
        _tune(Path(folder, "t"))
        return Path(folder, "t").read_bytes()


def run(seed: int) -> None:
    made = random.Random(seed)
    head, _, rest = table().partition(b"\n")
    # A head that differs is refused at once.
    content = (
        head + b"\n" + mutated(made, [rest], TOKENS)
        if made.random() < 0.9
        else mutated(made, [table()], TOKENS)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), "t", content)
        judge(lambda: _tune(path), f"seed {seed}, {content!r:.3000}")
