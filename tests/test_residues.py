"""Residues in groups (`tokens="blosum62"`): which letters, every kernel, models, bad input."""

import string

import numpy as np
import pytest
from loading import load

import textsvm
from textsvm import SVC
from textsvm.errors import InputError
from textsvm.evaluation.explanation import explain
from textsvm.kernels import (
    KERNELS,
    BoundedGap,
    EditDistance,
    GappedKmers,
    GapWeighted,
    LocalityImproved,
    Oligo,
    Spectrum,
    Sum,
    WeightedDegree,
    spelling,
)
from textsvm.runtime.device import select
from textsvm.text.documents import encode, encode_as, normalise
from textsvm.text.tokens import GROUPS, tokenise

#: BLOSUM62 (Henikoff and Henikoff 1992), rows and columns in the order of its letters.
LETTERS = "ARNDCQEGHILKMFPSTWYV"
BLOSUM62 = np.array(
    [
        [4, -1, -2, -2, 0, -1, -1, 0, -2, -1, -1, -1, -1, -2, -1, 1, 0, -3, -2, 0],
        [-1, 5, 0, -2, -3, 1, 0, -2, 0, -3, -2, 2, -1, -3, -2, -1, -1, -3, -2, -3],
        [-2, 0, 6, 1, -3, 0, 0, 0, 1, -3, -3, 0, -2, -3, -2, 1, 0, -4, -2, -3],
        [-2, -2, 1, 6, -3, 0, 2, -1, -1, -3, -4, -1, -3, -3, -1, 0, -1, -4, -3, -3],
        [0, -3, -3, -3, 9, -3, -4, -3, -3, -1, -1, -3, -1, -2, -3, -1, -1, -2, -2, -1],
        [-1, 1, 0, 0, -3, 5, 2, -2, 0, -3, -2, 1, 0, -3, -1, 0, -1, -2, -1, -2],
        [-1, 0, 0, 2, -4, 2, 5, -2, 0, -3, -3, 1, -2, -3, -1, 0, -1, -3, -2, -2],
        [0, -2, 0, -1, -3, -2, -2, 6, -2, -4, -4, -2, -3, -3, -2, 0, -2, -2, -3, -3],
        [-2, 0, 1, -1, -3, 0, 0, -2, 8, -3, -3, -1, -2, -1, -2, -1, -2, -2, 2, -3],
        [-1, -3, -3, -3, -1, -3, -3, -4, -3, 4, 2, -3, 1, 0, -3, -2, -1, -3, -1, 3],
        [-1, -2, -3, -4, -1, -2, -3, -4, -3, 2, 4, -2, 2, 0, -3, -2, -1, -2, -1, 1],
        [-1, 2, 0, -1, -3, 1, 1, -2, -1, -3, -2, 5, -1, -3, -1, 0, -1, -3, -2, -2],
        [-1, -1, -2, -3, -1, 0, -2, -3, -2, 1, 2, -1, 5, 0, -2, -1, -1, -1, -1, 1],
        [-2, -3, -3, -3, -2, -3, -3, -3, -1, 0, 0, -3, 0, 6, -4, -2, -2, 1, 3, -1],
        [-1, -2, -2, -1, -3, -1, -1, -2, -2, -3, -3, -1, -2, -4, 7, -1, -1, -4, -3, -2],
        [1, -1, 1, 0, -1, 0, 0, 0, -1, -2, -2, 0, -1, -2, -1, 4, 1, -3, -2, -2],
        [0, -1, 0, -1, -1, -1, -1, -2, -2, -1, -1, -1, -1, -2, -1, 1, 5, -2, -2, 0],
        [-3, -3, -4, -4, -2, -2, -3, -2, -2, -3, -2, -3, -1, 1, -4, -3, -2, 11, 2, -3],
        [-2, -2, -2, -3, -2, -1, -2, -3, 2, -1, -1, -2, -1, 3, -3, -2, -2, 2, 7, -1],
        [0, -3, -3, -3, -1, -2, -2, -3, -3, 3, 1, -2, 1, -1, -2, -2, 0, -3, -1, 4],
    ]
)
TEXTS = ["MKVLAAGIVG", "mkilssgvig", "MRVMTTGLVG", "PPWYFHHNDE", "PPFWYNNHEQ", "ppyfwhnhqd"]
LABELS = ["x", "x", "x", "y", "y", "y"]


def test_every_letter_has_one_group_and_the_ten_groups_are_alike():
    letters = "".join(GROUPS)
    assert sorted(letters) == sorted(string.ascii_uppercase + "*")
    group = np.array([next(g for g, letters in enumerate(GROUPS) if letter in letters) for letter in LETTERS])
    assert sorted(set(group)) == list(range(10))
    alike, others = group[:, None] == group, ~np.eye(20, dtype=bool)
    assert (BLOSUM62 == BLOSUM62.T).all()
    assert BLOSUM62[alike & others].min() >= 0
    assert BLOSUM62[alike & others].mean() > 1.5 > -1 > BLOSUM62[~alike].mean()


def test_tokens():
    assert "".join(tokenise("MkvX*buzoj", "blosum62")) == "lkix*dcdkl"
    documents = encode_as(["mkv", "", "rli"], "blosum62")
    assert [documents.symbols(i) for i in range(3)] == ["lki", "", "kli"]
    assert [documents.shown(i) for i in range(3)] == ["mkv", "", "rli"]


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum((1, 3), "log", idf=True),
        EditDistance(0.3),
        GapWeighted(2),
        BoundedGap(2),
        GappedKmers(3, 1),
        WeightedDegree(3, 1),
        Oligo(2),
        LocalityImproved(5),
    ],
    ids=str,
)
def test_every_kernel_of_symbols_reads_groups(kernel):
    reduced = [normalise("".join(tokenise(text, "blosum62"))) for text in TEXTS]
    expected = kernel.fit(encode(reduced)).rows(encode(reduced), select("cpu")).gram()
    of_groups = kernel.set_params(tokens="blosum62")
    documents = encode_as(list(map(normalise, TEXTS)), "blosum62")
    np.testing.assert_array_equal(of_groups.fit(documents).rows(documents, select("cpu")).gram(), expected)


def test_no_kernel_of_symbols_is_forgotten():
    of_symbols = [name for name in KERNELS.simple() if "tokens" in KERNELS[name]().get_params()]
    for name in of_symbols:
        assert spelling.parse(f"{name}:tokens=blosum62").tokens == "blosum62"


def test_models_are_kept_and_explained(tmp_path):
    kernel = Sum([Spectrum(2, tokens="blosum62"), Spectrum(1), Oligo(2, tokens="blosum62", keep_case=True)])
    for made in (kernel, Spectrum(2, tokens="blosum62"), WeightedDegree(3, tokens="blosum62")):
        model = SVC(made, device="cpu").fit(TEXTS, LABELS)
        textsvm.save(model, tmp_path / "m.textsvm")
        again, new = load(tmp_path / "m.textsvm"), ["MKVXXUBZ*", "ppyf", "", "ADEG"]
        np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))
        for one in explain(again, new):
            assert one.exact
            assert one.text in [*new, *map(str.lower, new)]
            assert one.symbols.sum() + one.bias == pytest.approx(one.value, abs=1e-6)
        (tmp_path / "m.textsvm").unlink()


@pytest.mark.parametrize("letter", ["-", ".", "1", " ", "é", "Ω"])
def test_other_symbols_are_refused_with_their_place(letter):
    wrong = "MKVLA" + letter + "GIVG"
    with pytest.raises(InputError, match=r"symbol 6 of the text that begins with 'mkvla.* no amino acid"):
        SVC(Spectrum(2, tokens="blosum62"), device="cpu").fit([*TEXTS, wrong], [*LABELS, "x"])
    model = SVC(Spectrum(2, tokens="blosum62"), device="cpu").fit(TEXTS, LABELS)
    with pytest.raises(InputError, match="symbol 6 of the text"):
        model.predict([wrong])


def test_both_strands_are_not_of_proteins():
    with pytest.raises(InputError, match="tokens='blosum62' cannot go with it"):
        GappedKmers(canonical=True, tokens="blosum62").check()
