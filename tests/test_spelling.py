"""Kernels on a line: what is written is read as an equal kernel, and wrong lines get one sentence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from sklearn.base import clone

from textsvm import (
    BoundedGap,
    EditDistance,
    GappedKmers,
    GapWeighted,
    Gaussian,
    Gkm,
    InputError,
    Linear,
    Mismatch,
    On,
    Product,
    Spectrum,
    Sum,
    UserKernel,
)
from textsvm.cli.machines import options_of
from textsvm.kernels import KERNELS
from textsvm.kernels.spelling import names, parse, spell
from textsvm.text.tokens import NAMES

lengths = st.integers(1, 30)
ranges = st.tuples(lengths, lengths).map(lambda pair: (min(pair), max(pair) + 1))
rates = st.floats(1e-300, 1e300)
symbols = {"tokens": st.sampled_from(NAMES), "keep_case": st.booleans()}
weights = st.sampled_from(("count", "presence", "intersection", "log"))
spectra = st.builds(Spectrum, lengths | ranges, weights, st.booleans(), **symbols)


def gap(p, decay, tokens, keep_case):
    low, high = (p, p) if isinstance(p, int) else p
    blend = None if isinstance(p, int) else tuple(float(q >= low) for q in range(1, high + 1))
    return GapWeighted(high, decay, blend, tokens=tokens, keep_case=keep_case)


gaps = st.builds(gap, lengths | ranges, st.floats(1e-300, 1), **symbols)
leaves = spectra | gaps | st.builds(EditDistance, rates, st.booleans(), **symbols)
products = st.lists(leaves, min_size=2, max_size=3).map(Product)
sums = st.lists(leaves | products, min_size=2, max_size=4).map(Sum)
vectors = st.builds(Gaussian, rates | st.just("scale")) | st.builds(Linear)
columns = st.text(min_size=1) | st.text('+*:=," x', min_size=1)
on_columns = st.builds(On, columns, leaves | vectors) | st.builds(
    On, st.lists(columns, min_size=2, max_size=3, unique=True), vectors
)
tables = st.lists(on_columns, min_size=2, max_size=3)


@given(leaves | products | sums | on_columns | tables.map(Sum) | tables.map(Product))
def test_what_is_written_is_read(kernel):
    assert parse(spell(kernel)).structure.as_dict() == kernel.structure.as_dict()
    assert parse(spell(clone(kernel))).structure.key == kernel.structure.key


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("spectrum:2-7,log,idf", Spectrum((2, 7), "log", idf=True)),
        ("spectrum:idf,log,2-7", Spectrum((2, 7), "log", idf=True)),
        (" spectrum : p=3, weight=presence ", Spectrum(3, "presence")),
        ("edit:gamma=5,relative", EditDistance(5.0, relative=True)),
        ("gap", GapWeighted()),
        ("gap:2-3,decay=0.25", GapWeighted(3, 0.25, (0.0, 1.0, 1.0))),
        ("spectrum:2+gap*edit", Sum([Spectrum(2), Product([GapWeighted(), EditDistance()])])),
        ("gapped:9,m=3,canonical", GappedKmers(9, 3, canonical=True)),
        ("mismatch:5,m=1", Mismatch(5, 1)),
        ("gkm:11,k=7,d=3,none,canonical", Gkm(11, 7, 3, "none", True)),
        ("bounded-gap:5,decay=0.2,span=8", BoundedGap(5, 0.2, 8)),
        ("spectrum:2*gap+edit", Sum([Product([Spectrum(2), GapWeighted()]), EditDistance()])),
        ("body=spectrum:p=3", On("body", Spectrum(3))),
        (
            " a b , c = gaussian : gamma=0.5 * body=gap",
            Product([On(("a b", "c"), Gaussian(0.5)), On("body", GapWeighted())]),
        ),
        ('"a+b, ""c""",d=linear', On(('a+b, "c"', "d"), Linear())),
    ],
)
def test_lines_are_read(text, kernel):
    assert parse(text).structure.as_dict() == kernel.structure.as_dict()


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (Spectrum(), "spectrum:4"),
        (Spectrum([2, 3], "log", np.True_), "spectrum:2-3,log,idf"),
        (Spectrum(3, normalised=False), "spectrum:3,normalised=False"),
        (GapWeighted(3, weights=np.array([1, 0, 0.5])), "gap:p=3,weights=(1.0, 0.0, 0.5)"),
        (Sum([Spectrum(2), EditDistance()], [1, 3]), "0.25 spectrum:2 + 0.75 edit:gamma=0.05"),
        (Sum([Sum([Spectrum(2), Spectrum(3)]), GapWeighted(4)]), "(spectrum:2+spectrum:3)+gap:4"),
        (Product([Sum([Spectrum(2), Spectrum(3)]), GapWeighted(4)]), "(spectrum:2+spectrum:3)*gap:4"),
        (On(["hour", "net size"], Gaussian(2.0)), "hour,net size=gaussian:gamma=2.0"),
        (On(" x", Spectrum(2, tokens="words")), '" x"=words:2'),
        (On("body", Sum([Spectrum(2), Spectrum(3)])), "body=(spectrum:2+spectrum:3)"),
        (Sum([UserKernel(len), Product([Spectrum(1), Spectrum(2)])]), "user+spectrum:1*spectrum:2"),
    ],
)
def test_every_kernel_is_written(kernel, text):
    assert spell(kernel) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "gap:p=32-9223372036854775807",
            "p=9223372036854775807 of the gap kernel must be a whole number from 1 to 1,000",
        ),
        ("", "a kernel is missing"),
        (
            "mismatch:k=9223372036854775807,m=3",
            "k=9223372036854775807 of the mismatch kernel must be a whole number from 1 to 1,000",
        ),
        ("spectrum:2+", "a kernel is missing"),
        ("*gap", "a kernel is missing"),
        ("spectre:2", "'spectre' is no kernel; take one of spectrum, edit, gap"),
        ("sum:2", "'sum' is no kernel"),
        ("spectrum:", "an option is missing in spectrum:; it takes LENGTH, "),
        ("spectrum:2,,log", "an option is missing"),
        ("spectrum:2,lag", "'lag' is no option in spectrum:2,lag"),
        ("spectrum:2,3", "p is given twice in spectrum:2,3"),
        ("spectrum:p=7-2", "p=7-2 must be 1 or more, and a range must not fall"),
        ("gap:p=0-3", "p=0-3 must be 1 or more"),
        ("spectrum:weight=lag", "weight=lag is not one of count"),
        ("spectrum:idf=yes", "'idf=yes' is no option"),
        ("edit:5", "'5' is no option in edit:5; it takes gamma=NUMBER, relative"),
        ("edit:gamma=x", "gamma=x is no number"),
        ("body=", "a kernel is missing"),
        ("body=spectre:2", "'spectre' is no kernel"),
        ("a=b=gap", "'b=gap' is no kernel"),
        ("=gap", "a column is missing in =gap"),
        ("a,=gaussian", "a column is missing in a,=gaussian"),
        ('""=gap', 'a column is missing in ""=gap'),
        ('"a"b=gap', 'a column is missing in "a"b=gap'),
        ('"a=gap', 'a quote is not closed in "a=gap'),
        ("a=gap+gap", "part 0 of a sum of kernels reads columns, and part 1 texts; name the column"),
        ("gap:decay=7", "decay=7.0 of the gap kernel must be above 0"),
    ],
)
def test_wrong_lines_get_one_sentence(text, message):
    with pytest.raises(InputError) as error:
        parse(text)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_words_are_a_spectrum_of_words():
    for text, kernel in {
        "words:1-2,log,idf": Spectrum((1, 2), "log", idf=True, tokens="words"),
        "words:1": Spectrum(1, tokens="words"),
        "words:4,keep_case": Spectrum(4, tokens="words", keep_case=True),
        "spectrum:2,tokens=whitespace": Spectrum(2, tokens="whitespace"),
        "gap:2,tokens=words,keep_case": GapWeighted(2, tokens="words", keep_case=True),
        "spectrum:2,keep_case+words:2": Sum([Spectrum(2, keep_case=True), Spectrum(2, tokens="words")]),
    }.items():
        assert parse(text).structure.as_dict() == kernel.structure.as_dict()
        assert spell(kernel) == text
    assert parse("words").p == 1
    assert parse("words:log").structure.as_dict() == parse("spectrum:log,tokens=words,1").structure.as_dict()
    assert parse("edit:keep-case").keep_case
    refuses("tokens is given twice in words:tokens=words", parse, "words:tokens=words")
    refuses("keep_case is given twice in words:keep-case,keep_case", parse, "words:keep-case,keep_case")
    chosen = options_of(KERNELS)(kernel=["gap,words", "edit+words:2"]).grid()
    assert [spell(kernel) for kernel in chosen] == ["gap:5", "words:1", "edit:gamma=0.05+words:2"]


def test_names_are_those_of_kernels_with_options():
    assert {"spectrum", "edit", "gap"} <= set(names())
    assert not {"sum", "product"} & set(names())
