"""All pairs of strings within an edit distance, beside RapidFuzz.

`rapidfuzz.process.cdist(score_cutoff=...)` makes a matrix of all distances, on all cores; its entries up to
the cut-off are what `textsvm.neighbours` must find, and are compared first. Both are given the same list of
strings, ours is timed with encoding, the two in turns. A third of the strings are copies with a few edits.

With ``--device cuda`` there is no baseline: the pairs of 5,000 strings are compared with those of the CPU,
and those of 100,000 are found and timed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.corpora import resampled_documents, texts_of
from benchmarks.gpu_kernels import english_like
from benchmarks.harness import BenchmarkReport, benchmark, option, paired
from textsvm.errors import InputError
from textsvm.kernels.edit.kernel import EditDistance
from textsvm.nearest.neighbours import Neighbours, neighbours
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.runtime.device import select
from textsvm.text.documents import encode

#: Given and family names, 40 each, as they are spelled.
GIVEN = """james mary robert patricia john jennifer michael linda david elizabeth william barbara richard
susan joseph jessica thomas sarah christopher karen charles lisa daniel nancy matthew sandra anthony betty
mark ashley donald emily steven kimberly andrew margaret paul donna joshua michelle"""
FAMILY = """smith johnson williams brown jones garcia miller davis rodriguez martinez hernandez lopez gonzales
wilson anderson thomas taylor moore jackson martin lee perez thompson white harris sanchez clark ramirez lewis
robinson walker young allen king wright scott torres nguyen hill flores"""
Texts = Callable[[int], list[str]]


def with_copies(texts: list[str], n: int) -> list[str]:
    """n of these texts, a third of them copies of others with up to six edits."""
    rng = np.random.default_rng(1)
    kept = texts[: n - n // 3]
    return kept + [_edited(kept[i], rng) for i in rng.integers(0, len(kept), n // 3)]


def _edited(text: str, rng: np.random.Generator) -> str:
    for _ in range(rng.integers(0, min(7, 2 + len(text) // 10))):
        place = int(rng.integers(len(text) + 1))
        text = text[:place] + ("", "a", "e")[rng.integers(3)] + text[place + int(rng.integers(2)) :]
    return text


def english(n: int) -> list[str]:
    """Letters as frequent as in English, 100 symbols."""
    return with_copies(texts_of(english_like(n, 100)), n)


def names(n: int) -> list[str]:
    """Two given names and a family name."""
    rng = np.random.default_rng(0)
    given, family = GIVEN.split(), FAMILY.split()
    picks = rng.integers(0, 40, (n, 3)).tolist()
    made = [f"{given[a]} {given[b]} {family[c]}" for a, b, c in picks]
    return with_copies(made, n)


def sentences(n: int) -> list[str]:
    """Sentences of newswire, 300 symbols."""
    corpus = read_corpus(sample("newswire"))
    documents = encode([text.lower() for text in corpus.texts])
    made, _ = resampled_documents(documents, np.zeros(len(documents), np.int64), n, 300)
    return with_copies(texts_of(made), n)


CORPORA: dict[str, tuple[Texts, tuple[int, ...]]] = {
    "English-like, 100 symbols": (english, (2, 5, 10, 20)),
    "names, about 20 symbols": (names, (1, 2, 4)),
    "sentences, 300 symbols": (sentences, (5, 20, 60)),
}


def beside_rapidfuzz(name: str, n: int, within: int, repeats: int) -> dict[str, Any]:
    """One row; raises AssertionError if the two do not find the same."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    texts = CORPORA[name][0](n)

    def theirs() -> Any:
        return cdist(
            texts, texts, scorer=Levenshtein.distance, score_cutoff=within, workers=-1, dtype=np.uint16
        )

    matrix = theirs()
    found = ours(texts, within, "cpu")
    wanted = np.triu(matrix <= within, 1)
    assert len(found) == wanted.sum()
    np.testing.assert_array_equal(found.distances, matrix[found.rows, found.columns])
    assert (found.rows < found.columns).all()
    seconds = paired(lambda: ours(texts, within, "cpu"), theirs, repeats)
    return {
        "strings": name, "n": n, "within": within, "pairs found": len(found), "ours, s": seconds["ours"],
        "RapidFuzz cdist, s": seconds["theirs"], "times faster": seconds["ratio"],
    }  # fmt: skip


def ours(texts: list[str], within: int, device: str) -> Neighbours:
    """All pairs within a distance."""
    return neighbours(texts, kernel=EditDistance(), within=within, normalise="none", device=device)


def on_a_card(name: str, n: int, within: int, repeats: int) -> dict[str, Any]:
    """One row; raises AssertionError if the card and the CPU do not find the same."""
    texts = CORPORA[name][0](n)
    some = texts[:: max(1, n // 5000)]
    cpu, card = (ours(some, within, device) for device in ("cpu", "cuda"))
    for part in ("rows", "columns", "distances"):
        np.testing.assert_array_equal(getattr(cpu, part), getattr(card, part))
    found, seconds = ours(texts, within, "cuda"), []
    for _ in range(repeats):
        clock = time.perf_counter()
        ours(texts, within, "cuda")
        seconds.append(time.perf_counter() - clock)
    least = min(seconds)
    return {
        "strings": name, "n": n, "within": within, "pairs found": len(found), "s": least,
        "G pairs/s": n * (n - 1) / 2 / least / 1e9,
    }  # fmt: skip


@benchmark(
    "neighbours",
    "Neighbours within an edit distance",
    "reports/neighbours",
    option("--n", type=int, help="number of strings (default: 10,000, on a GPU 100,000)"),
    device="cpu",
    gpu_output="reports/gpu/neighbours",
    quick="use few strings",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Find all pairs within each distance."""
    card = select(options.device).kind == "cuda"
    if not card and find_spec("rapidfuzz") is None:
        raise InputError(
            "this benchmark compares with RapidFuzz, which is not installed; pip install rapidfuzz"
        )
    n = options.n or (300 if options.quick else 100_000 if card else 10_000)
    row = on_a_card if card else beside_rapidfuzz
    for name, (_, thresholds) in CORPORA.items():
        for within in thresholds:
            report.row(f"{name} {within}", row, name, n, within, 1 if options.quick else 3)
