"""The default kernels of a classifier: means of kernels with learnt weights and a plain kernel.

The former weight substrings and words by idf and by their log odds in the classes; the plain kernel is the
intersection kernel, which learns no weights. They err on different texts, so that a machine on their mean is
more accurate. DNA has gapped k-mers in place of the kernels with learnt weights.

The intersection kernel also compares the lengths of texts, which a machine learns to ignore only from enough
texts of each class, and words need many texts to occur again: with few and long texts both weigh less.

The form was chosen on 83 public sets by leaving whole sets out, weights, C and loss on 62 of them:
reports/default_study.md has the figures, and the kernels that were tried without gain. Kernels on single
columns of a table, and of an encoder, are added with weights that `choose.weigh_parts` chooses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, pstdev

from textsvm.kernels.base import Kernel, Sum
from textsvm.kernels.combined.on import On
from textsvm.kernels.mers.gapped import GappedKmers
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.kernels.spelling import spell
from textsvm.text.documents import Documents, MultiView, View

FEW_WORDS = 2.0  #: Mean number of words per text from which kernels on words are used
BEGINNING = 1000  #: Characters at the beginning of a text whose words are counted
LONG_ENOUGH = 20  #: DNA: fewest characters per text in the mean
MOST_AMBIGUOUS = 0.1  #: DNA: largest share of letters R, Y, K, ... of ambiguous bases
FEW = 100  #: C is larger below this number of texts times the square root of their mean length
FEW_DNA = 300  #: DNA: C is larger below this number of texts
MOST_C = 10.0  #: Largest factor of C for few texts
#: The plain kernel and words weigh less below this number of texts of a class times the square root of their
#: mean length.
FEW_OF_CLASS = 5.0
FALL = 144  #: They weigh least at this fraction of it.
LEAST_PLAIN = 0.1  #: Least weight of the plain kernel for few texts
PIECE = 1000  #: Fewest characters of a piece of a longer work in the mean
PIECE_SPREAD = 0.2  #: Largest ratio of the standard deviation of the lengths of pieces to their mean
FEW_PIECES = 100  #: Kernels learn no weights below this number of pieces of a class in the mean
FEW_GROUPS = 20  #: The same for groups of texts
PLAIN_OF_WORKS = 0.2  #: Weight of the plain kernel for few works
#: Other weights of the plain kernel that trials compare.
PLAIN = (0.2, 0.7, 1.0)
_AMBIGUOUS = r"[rykmswbdhv]"  #: Codes of ambiguous bases
_CODES = r"\s*[acgtunrykmswbdhv]+\s*"  #: A text of codes of bases


@dataclass(frozen=True)
class Candidate:
    """A kernel, and its C in units of the classifier's parameter C."""

    words: bool = False  #: Whether words and pairs of words are compared, too
    dna: bool = False
    plain: float = 0.5  #: Weight of the plain kernel, from 0 to 1
    word_share: float = 0.5  #: Share of words in the other weights
    C: float = 1.0
    loss: str = "squared_hinge"
    columns: tuple[str, ...] = ()  #: Of a table, whose joined texts are compared
    parts: tuple[tuple[float, Kernel], ...] = ()  #: Weights, from 0 to 1, and kernels that are added
    works: str = ""  #: Why they are not weighted by document frequencies and odds: few works

    def kernel(self) -> Kernel:
        """A new kernel object."""
        strings = self._strings()
        if self.columns:
            strings = On(self.columns, strings).structure.resolved()
        if not any(weight > 0 for weight, _ in self.parts):
            return strings
        rest = 1 - sum(weight for weight, _ in self.parts)
        parts = [(rest, strings), *((weight, part.structure.resolved()) for weight, part in self.parts)]
        terms = [(weight * own, term) for weight, part in parts for own, term in part.structure.terms]
        return Sum([term for weight, term in terms if weight > 0], [w for w, _ in terms if w > 0])

    def _strings(self) -> Kernel:
        """The kernel of texts without other parts."""
        plain, idf = Spectrum((1, 5), "intersection"), not self.works
        if self.dna:
            learning: list[Kernel] = [GappedKmers(7, 2, canonical=True)]
        else:
            learning = [Spectrum((1, 5), "log", idf=idf, odds=idf, keep_case=True, shared=not idf)]
        shares = [1.0]
        if self.words:
            words = Spectrum((1, 2), "log", idf, odds=idf, tokens="words", keep_case=True, shared=not idf)
            learning, shares = [*learning, words], [1 - self.word_share, self.word_share]
        weights = [*(round((1 - self.plain) * share, 6) for share in shares), self.plain]
        terms = [term for term in zip([*learning, plain], weights, strict=True) if term[1] > 0]
        if len(terms) == 1:
            return terms[0][0]
        weights = [weight for _, weight in terms]
        equal = max(weights) - min(weights) < 1e-5
        return Sum([kernel for kernel, _ in terms], None if equal else tuple(weights))

    def with_loss(self, loss: str) -> Candidate:
        """This candidate with another loss: squared hinge has half the C of hinge."""
        factor = {"hinge": 1.0, "squared_hinge": 0.5}
        return replace(self, loss=loss, C=self.C * factor[loss] / factor[self.loss])

    def alternatives(self) -> list[Candidate]:
        """This candidate, and others with more and with less of the plain kernel."""
        return [self, *(replace(self, plain=plain) for plain in PLAIN if plain != self.plain)]

    def characters(self, documents: Documents | MultiView) -> Documents:
        """The characters of documents with the views of the kernel."""
        return documents.of(View(keep_case=not self.dna, column=self.column))

    @property
    def column(self) -> str | tuple[str, ...] | None:
        """Column of the view of the texts."""
        return self.columns[0] if len(self.columns) == 1 else self.columns or None

    def description(self, C: float, kernel: Kernel | None = None) -> str:
        """Kernel (by default a new kernel) and C in a sentence, given the classifier's parameter C."""
        of = "texts with words" if self.words else "texts without words"
        if self.dna:
            of = "DNA"
        elif self.works:
            of = self.works
        name, loss = spell(kernel or self.kernel()), self.loss.replace("_", " ")
        return f"{name} with C = {self.C * C:.3g} and {loss} loss: the default for {of}"


def auto_candidate(
    texts: Sequence[str], folded: bool = True, n_classes: int = 2, n_groups: int | None = None
) -> Candidate:
    """The default for training texts; `folded` says whether their normal form has no capitals."""
    if is_dna(texts, folded):
        return Candidate(dna=True, plain=1 / 3, C=penalty(FEW_DNA, len(texts)), loss="hinge")
    if works := few_works(texts, n_classes, n_groups):
        return Candidate(has_words(texts), plain=PLAIN_OF_WORKS, C=MOST_C, works=works)
    # 1 for enough texts of each class in the mean, falling with the logarithm of their number to 0.
    least = FEW_OF_CLASS * max(_mean_length(texts), 1) ** 0.5 * n_classes
    enough = min(max(1 + log(max(len(texts), 1) / least) / log(FALL), 0.0), 1.0)
    plain = LEAST_PLAIN + (0.5 - LEAST_PLAIN) * enough
    words, plain = round((1 - plain) * enough / 2, 2), round(plain, 2)
    return Candidate(has_words(texts), plain=plain, word_share=words / (1 - plain), C=penalty_of(texts))


def fast_candidate(
    texts: Sequence[str], folded: bool = True, n_classes: int = 2, n_groups: int | None = None
) -> Candidate:
    """The default without the plain kernel: less accurate, and half the time."""
    default = auto_candidate(texts, folded, n_classes, n_groups)
    return replace(default, plain=0.0, word_share=0.5, C=default.C * (1 if default.dna else 1.5))


def penalty(enough: float, n: int) -> float:
    """Factor of C for n texts, 1 for `enough`: few texts are separable, and need a hard margin."""
    return min(max(1.0, enough / max(n, 1)), MOST_C)


def penalty_of(texts: Sequence[str]) -> float:
    """Factor of C for texts in a language; all of long texts are alike, and more of them are needed."""
    return penalty(FEW * _mean_length(texts) ** 0.5, len(texts))


def _mean_length(texts: Sequence[str]) -> float:
    return sum(map(len, texts)) / max(len(texts), 1)


def few_works(texts: Sequence[str], n_classes: int, n_groups: int | None = None) -> str:
    """A name for texts of few works: of few groups, or long and of nearly equal length; else empty."""
    if n_groups is not None:
        return "texts of few groups" if n_groups < FEW_GROUPS * n_classes else ""
    lengths = [len(text) for text in texts]
    if sum(lengths) < PIECE * max(len(texts), 1) or len(texts) >= FEW_PIECES * n_classes:
        return ""
    equal = pstdev(lengths) <= PIECE_SPREAD * fmean(lengths)
    pieces = "few pieces of longer works, as texts of nearly equal length are"
    return f"{pieces}; without groups, figures hold for pieces of the same works" if equal else ""


def has_words(texts: Sequence[str]) -> bool:
    """Whether texts have at least `FEW_WORDS` words, separated by white space, in the mean."""
    return sum(len(text[:BEGINNING].split()) for text in texts) >= FEW_WORDS * len(texts)


def is_dna(texts: Sequence[str], folded: bool = True) -> bool:
    """Whether texts are sequences of DNA or RNA, some with ambiguity codes; in lower case if not `folded`."""
    texts = [text for text in texts if text.strip()]
    ambiguous, codes = (re.compile(letters, re.I if folded else 0) for letters in (_AMBIGUOUS, _CODES))
    if not (texts and all(map(codes.fullmatch, texts))):
        return False
    letters = sum(len(text.strip()) for text in texts)
    if letters < LONG_ENOUGH * len(texts):
        return False
    return sum(len(ambiguous.findall(text)) for text in texts) <= MOST_AMBIGUOUS * letters
