"""Documents as arrays of a model file, and back: everything is checked when it is read."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.errors import InputError


def arrays_of(documents: Documents) -> dict[str, NDArray[Any]]:
    """Documents as they are saved; tokens one after the other, in UTF-8."""
    arrays = {"codes": documents.codes, "offsets": documents.offsets}
    if not documents.of_tokens:
        return arrays | {"alphabet": documents.alphabet}
    tokens = [token.encode("utf-8", "surrogatepass") for token in documents.alphabet]
    starts = np.concatenate([[0], np.cumsum([len(token) for token in tokens])]).astype(np.int64)
    return arrays | {"tokens": np.frombuffer(b"".join(tokens), np.uint8), "token_starts": starts}


def documents_from(arrays: dict[str, NDArray[Any]], prefix: str, tokens: bool) -> Documents:
    """Saved documents, every code and offset checked.

    Raises
    ------
    InputError, KeyError or ValueError
        If they are damaged.
    """
    codes, offsets = arrays[prefix + "codes"], arrays[prefix + "offsets"]
    if codes.ndim != 1 or codes.dtype not in (np.uint8, np.uint16, np.uint32):
        raise InputError("its symbol codes are not one row of small unsigned integers")
    _check_offsets(offsets, len(codes), "document")
    alphabet: NDArray[Any] = (
        _token_alphabet(arrays[prefix + "tokens"], arrays[prefix + "token_starts"])
        if tokens
        else _character_alphabet(arrays[prefix + "alphabet"])
    )
    if len(codes) and codes.max() >= len(alphabet):
        raise InputError("it has symbols outside its alphabet")
    return Documents(codes, offsets, alphabet)


def _character_alphabet(alphabet: NDArray[Any]) -> NDArray[np.uint32]:
    if alphabet.ndim != 1 or alphabet.dtype != np.uint32:
        raise InputError("its alphabet is not one row of code points")
    if len(alphabet) and (alphabet.max() > 0x10FFFF or len(np.unique(alphabet)) != len(alphabet)):
        raise InputError("its alphabet has symbols that are no code points, or one twice")
    return alphabet


def _token_alphabet(text: NDArray[Any], starts: NDArray[Any]) -> NDArray[np.object_]:
    if text.ndim != 1 or text.dtype != np.uint8:
        raise InputError("its tokens are not one row of bytes")
    _check_offsets(starts, len(text), "token")
    data, bounds = text.tobytes(), starts.tolist()
    # A UnicodeDecodeError is a ValueError, which a damaged file may raise.
    tokens = [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]
    if len(set(tokens)) != len(tokens):
        raise InputError("its alphabet has a token twice")
    return np.array([None, *tokens], object)[1:]


def _check_offsets(offsets: NDArray[Any], size: int, of: str) -> None:
    if offsets.ndim != 1 or offsets.dtype != np.int64 or len(offsets) < 1:
        raise InputError(f"its {of} offsets are not one row of 64-bit integers")
    if offsets[0] != 0 or offsets[-1] != size or (offsets[1:] < offsets[:-1]).any():
        raise InputError(f"its {of} offsets are out of bounds")
