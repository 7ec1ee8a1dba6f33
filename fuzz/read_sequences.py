"""FASTA: headers and fields."""

import gzip

from textsvm.readers import sample

from . import _whole
from ._reading import Target

TOKENS = (
    b">",
    b"@",
    b"+",
    b";",
    b"|",
    b"label=",
    b">a|b|training\n",
    b"\n>",
    b"\n+\n",
    b"split=",
    b"=",
    b"-1",
)
OPTIONS = (
    {},
    {"label": "label"},
    {"label": "2"},
    {"target": "y"},
    {"format": "fasta"},
    {"weight": "w"},
    {"label_separator": ";"},
)


def seeds() -> list[bytes]:
    return [
        gzip.decompress(sample("sites").read_bytes())[:4000],
        b">1 label=a;b y=2 w=1 split=train\nACGT\nAC\n;c\n>2 label=c y=x\nNN\n",
        b"@r1 label=a\nACGT\n+\nIIII\n@r2\nAC\n+r2\nII\n",
        b">P1|kinase|training\nMKV\n>P2|x|testing\nMM\n",
    ]


run = Target("t.fa", seeds, "fasta", TOKENS, OPTIONS, whole=_whole.sequences).run
