"""Residues of proteins in groups that replace each other: what `tokens="blosum62"` reads.

The ten groups that Li, Fan, Wang and Wang (2003, Protein Engineering 16:323) found most alike by BLOSUM62,
Li-B(10) in Edgar's comparison (2004, Nucleic Acids Research 32:380):

    AST  C  DEQ  FWY  G  HN  IV  KR  LM  P

A group is written as its first letter. The other letters of IUPAC: U (selenocysteine) is a C and O
(pyrrolysine) a K, of which they are made; Z (E or Q) is the group of both; B (D or N) is read as D and J (I
or L) as L, as MMseqs2 reads them; X (any) is a symbol of its own, and so is * (a stop). Case tells nothing.
Every letter from A to Z is read; anything else, gaps of an alignment and white space too, is refused.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError

GROUPS = ("AST", "CU", "DEQBZ", "FWY", "G", "HN", "IV", "KRO", "LMJ", "P", "X", "*")
#: The code points of the groups' names, in the order of their codes.
NAMES = np.array([ord(group[0].lower()) for group in GROUPS], np.uint32)
_CODE_OF = {ord(case): code for code, group in enumerate(GROUPS) for case in group + group.lower()}
_NONE = len(GROUPS)


def residue_groups(
    codes: NDArray[np.unsignedinteger], offsets: NDArray[np.int64], alphabet: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """The group of every character of some texts, as an index of `GROUPS`.

    Parameters
    ----------
    codes, offsets, alphabet : arrays
        Characters, as `textsvm.documents.Documents` has them.

    Raises
    ------
    InputError
        If a character stands for no residue.
    """
    group_of = np.array([_CODE_OF.get(point, _NONE) for point in alphabet.tolist()] + [_NONE], np.uint8)
    groups: NDArray[np.uint8] = group_of[codes]
    if (groups == _NONE).any():
        place = int(np.argmax(groups == _NONE))
        text = int(np.searchsorted(offsets, place, side="right")) - 1
        begin = "".join(map(chr, alphabet[codes[offsets[text] : offsets[text + 1]][:30]].tolist()))
        raise InputError(
            f"symbol {place - offsets[text] + 1} of the text that begins with {begin!r} is "
            f"{chr(alphabet[codes[place]])!r}, which stands for no amino acid: tokens='blosum62' reads the "
            "letters A to Z and *"
        )
    return groups
