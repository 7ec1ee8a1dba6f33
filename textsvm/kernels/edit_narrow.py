"""Edit distances on a GPU compare codes of 16 bits: documents over larger alphabets are renumbered for it.

Of a column document, only symbols that a row document has can match. So row documents are taken a run at a
time, of at most 65,535 distinct symbols; these are numbered from 0, and every other symbol of the columns
becomes the one behind them, which no row document has. The distances stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.errors import InputError

#: Distinct symbols of row documents that are compared together.
MOST = (1 << 16) - 1


def fits(*documents: Documents) -> bool:
    """Whether 16 bits hold the codes as they are."""
    return all(len(each.alphabet) <= MOST + 1 for each in documents)


def narrow_runs(
    others: Documents, picks: NDArray[np.int64], columns: Documents, most: int = MOST
) -> Iterator[tuple[slice, Documents, Documents]]:
    """Runs of `picks`, their documents and all columns, renumbered together to 16 bits.

    Raises
    ------
    InputError
        If one row document has more than `most` distinct symbols.
    """
    first = 0
    for last in _ends(others, picks, most):
        yield slice(first, last), *_renumbered(others.take(picks[first:last]), columns)
        first = last


def _ends(others: Documents, picks: NDArray[np.int64], most: int) -> Iterator[int]:
    """Where runs end."""
    run_of, run, distinct = np.full(len(others.alphabet), -1, np.int64), 0, 0
    for place, d in enumerate(picks):
        symbols = np.unique(others.codes[others.offsets[d] : others.offsets[d + 1]])
        if len(symbols) > most:
            raise InputError(
                f"a document has {len(symbols):,} distinct symbols and edit distances on a GPU tell {most:,} "
                "apart; shorten the documents (--max-length), or run with --device cpu"
            )
        new = int((run_of[symbols] != run).sum())
        if distinct + new > most:
            yield place
            run, distinct, new = run + 1, 0, len(symbols)
        run_of[symbols] = run
        distinct += new
    if len(picks):
        yield len(picks)


def _renumbered(rows: Documents, columns: Documents) -> tuple[Documents, Documents]:
    used = np.unique(rows.codes)
    code_of = np.full(max(len(rows.alphabet), len(columns.alphabet)), len(used), np.uint16)
    code_of[used] = np.arange(len(used))
    numbers = np.arange(len(used) + 1, dtype=np.uint32)
    of_rows = Documents(code_of[rows.codes], rows.offsets, numbers[:-1])
    return of_rows, Documents(code_of[columns.codes], columns.offsets, numbers)
