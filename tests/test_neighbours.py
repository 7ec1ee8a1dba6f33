"""Neighbours: every pair that a matrix of all kernel values has, and no other."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from command import fails, run
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import edit_distance

from textsvm import (
    SVC,
    BoundedGap,
    EditDistance,
    Gaussian,
    InputError,
    Linear,
    On,
    Spectrum,
    Sum,
    UserKernel,
    neighbours,
)
from textsvm.kernels.edit.near import (
    add_masks,
    bits_of,
    bounded_distance,
    classes_of,
    counts_of,
    differences,
    pairs_apart,
    remove_masks,
    side_by_side,
)
from textsvm.nearest import search
from textsvm.nearest.search import PAIR_BYTES
from textsvm.runtime.device import select
from textsvm.text.documents import encode

TEXTS = ["cheap pills now", "cheap pill now", "meeting at noon", "meeting at  noon!", "", "", "a", "noon"]
RANDOM = np.random.default_rng(0)
#: Memory of tiles of so few rows and columns that there are many.
SMALL = PAIR_BYTES * 7 * 7


def copies(n, low, high, letters):
    """Random texts, and copies of them with a few edits."""
    texts = ["".join(RANDOM.choice(list(letters), RANDOM.integers(low, high + 1))) for _ in range(n)]
    for text in texts[:n]:
        for _ in range(RANDOM.integers(0, 2 + high // 8)):
            place, letter = RANDOM.integers(len(text) + 1), RANDOM.choice(["", *letters])
            text = text[:place] + letter + text[place + RANDOM.integers(2) :]
        texts.append(text)
    return texts


def all_values(kernel, texts, others=None):
    """Normalised kernel values of all texts with all columns, by brute force."""
    source = SVC(kernel, normalise="none", device="cpu").settings.source
    columns = source.encode(source.validate(texts if others is None else others))
    fitted = source.kernel_for(columns)
    fitted.fit(fitted.structure.read(columns))
    rows = columns if others is None else source.encode(source.validate(texts), columns)
    made = [fitted.rows(fitted.structure.read(each), select("cpu")) for each in (columns, rows)]
    scale = [np.divide(1, np.sqrt(each.diag()), where=each.diag() > 0, out=np.zeros(each.n)) for each in made]
    return made[0].cross(fitted.structure.read(rows)) * scale[1][:, None] * scale[0]


def found(*arguments, **options):
    """Pairs and values as a dict, each pair once."""
    result = neighbours(*arguments, normalise="none", device="cpu", memory=SMALL, **options)
    pairs = list(zip(result.rows.tolist(), result.columns.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert pairs == [p for _, p in sorted(zip(zip(result.rows, -result.values, result.columns), pairs))]  # noqa: B905
    return dict(zip(pairs, result.values.tolist(), strict=True)), result


def check_edit(kernel, texts, others, within, at_least):
    values = all_values(kernel, texts, others)
    columns = encode(texts if others is None else others)
    rows = encode(texts, columns.alphabet)
    distances = kernel.rows(columns, select("cpu")).distances(rows)
    wanted = values >= (-1 if at_least is None else np.float32(min(at_least, 1 - 1e-5)))
    wanted &= distances <= (10**9 if within is None else within)
    if others is None:
        wanted = np.triu(wanted, 1)
    pairs, result = found(texts, others, kernel, within=within, at_least=at_least)
    assert set(pairs) == set(zip(*(each.tolist() for each in wanted.nonzero()), strict=True))
    np.testing.assert_array_equal(result.distances, distances[result.rows, result.columns])
    np.testing.assert_array_equal(result.values, values[result.rows, result.columns].astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high", "letters"), [(0, 9, "ab"), (50, 80, "abcdefgh"), (120, 300, "abcd")])
@pytest.mark.parametrize("kernel", [EditDistance(0.05), EditDistance(2.0, relative=True)])
def test_pairs_within_a_distance_are_those_of_brute_force(low, high, letters, kernel):
    texts, others = copies(9, low, high, letters), copies(6, low, high, letters + "z")
    for within, at_least in ((0, None), (3, None), (40, None), (None, 0.8), (150, 0.1), (4, 0.9)):
        check_edit(kernel, texts, None, within, at_least)
        check_edit(kernel, texts + others[:3], others, within, at_least)


texts_of = st.lists(
    st.text("abc", max_size=9) | st.text("ab", min_size=60, max_size=70), min_size=1, max_size=8
)


@settings(max_examples=30, deadline=None)
@given(texts_of, texts_of | st.none(), st.none() | st.integers(0, 70), st.floats(0.01, 1), st.booleans())
def test_any_texts_and_thresholds(texts, others, within, at_least, relative):
    kernel = EditDistance(1.0, relative=True) if relative else EditDistance(0.05)
    check_edit(kernel, texts, others, within, at_least)


@settings(max_examples=60, deadline=None)
@given(
    st.text("abcdefghij", max_size=150),
    st.lists(st.tuples(st.integers(0, 150), st.sampled_from(["", "a", "bc"]))),
)
def test_bounds_are_below_the_distance_and_the_cut_off_distance_is_it(text, edits):
    other = text
    for place, letter in edits:
        other = other[:place] + letter + other[place + 1 :]
    documents, distance = encode([text, other]), edit_distance(text, other)
    codes = documents.codes_for()
    classes = classes_of([documents])
    counts, bits = counts_of(documents, codes, classes), bits_of(documents, codes, 40)
    apart = np.empty(32, np.uint16)
    differences(counts[0], side_by_side(counts[1:])[0], apart)
    assert apart[0] + abs(len(text) - len(other)) <= 2 * distance
    assert pairs_apart(bits[0], bits[1]) <= 4 * distance
    one, two = codes[: len(text)], codes[len(text) :]
    masks = np.zeros((len(documents.alphabet) + 1, len(text) // 64 + 3), np.uint64)
    slots, state = np.zeros(len(documents.alphabet), np.int32), np.empty((2, len(text) // 64 + 1), np.uint64)
    add_masks(one, masks, slots)
    for limit in (0, 1, 5, 31, 32, 64, 150, distance - 1, distance, distance + 1):
        got = bounded_distance(masks, slots, len(text), two, limit, state)
        assert got == distance if distance <= limit else got > limit
    remove_masks(one, masks, slots)
    assert not masks.any()
    assert not slots.any()


VECTORS = RANDOM.normal(size=(len(TEXTS), 3))
TABLE = {"text": TEXTS, "number": list(range(len(TEXTS)))}
BESIDE = Sum([On("text", Spectrum(2)), On("number", Gaussian())])


@pytest.mark.parametrize(
    ("kernel", "given"),
    [
        (Spectrum((1, 3), "log", idf=True), TEXTS),
        (Spectrum(2, normalised=False), TEXTS),
        (BoundedGap(2), TEXTS),
        (EditDistance(0.1), TEXTS),
        (UserKernel(lambda s, t: [[1.0 + len(set(a) & set(b)) for b in t] for a in s]), TEXTS),
        (Linear(), VECTORS),
        (On("text", EditDistance(0.1)), TABLE),
        (BESIDE, TABLE),
    ],
    ids=["learns", "not normalised", "spans", "edit", "function", "vectors", "column", "sum on columns"],
)
def test_every_kernel_finds_the_nearest_and_all_above_a_threshold(kernel, given):
    n, values = len(TEXTS), all_values(kernel, given)
    pairs, _ = found(given, kernel=kernel, at_least=0.3)
    wanted = np.triu(values >= 0.3, 1)
    assert set(pairs) == set(zip(*(each.tolist() for each in wanted.nonzero()), strict=True))
    others = values - 3 * np.eye(n)
    _, result = found(given, kernel=kernel, k=3)
    assert (np.bincount(result.rows, minlength=n) == 3).all()
    best = -np.sort(-others, axis=1)[:, :3]
    np.testing.assert_allclose(result.values.reshape(n, 3), best, atol=1e-6)
    np.testing.assert_allclose(result.values, values[result.rows, result.columns], atol=1e-6)
    pairs, both = found(given, kernel=kernel, k=2, at_least=0.3)
    assert len(both) == np.minimum((others >= 0.3).sum(axis=1), 2).sum()
    against, _ = found(given, given, kernel, k=n)
    assert len(against) == n * n


def test_of_equally_near_ones_the_first():
    found = neighbours(["abc"] * 5, k=2, within=0, memory=PAIR_BYTES * 4, device="cpu")
    assert found.columns.reshape(5, 2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]
    assert found.matrix().shape == (5, 5)


def test_progress_ends_where_it_should():
    seen = []
    neighbours(TEXTS, within=1, memory=SMALL, device="cpu", progress=lambda *told: seen.append(told))
    stage = [(done, total) for name, done, total in seen if name == "neighbours"]
    assert len(stage) == 3
    assert stage[-1][0] == stage[-1][1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 0}, "k must be a whole number of at least 1, or None, got 0"),
        ({"k": True}, "k must be .* got True"),
        ({"within": -1}, "within must be .* got -1"),
        ({"at_least": 0}, "at_least must be .* got 0"),
        ({"at_least": 1.5}, "at_least must be .* got 1.5"),
        ({"within": 3, "kernel": Spectrum(3)}, "the spectrum kernel has none"),
        ({"kernel": "precomputed"}, "need texts to compare"),
        ({"memory": "much"}, "memory"),
    ],
)
def test_what_cannot_be_is_a_sentence(options, words):
    with pytest.raises(InputError, match=words):
        neighbours(TEXTS, **options)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    rows = [("a", "Jon Smith"), ("b", "John Smith"), ("c", "Mary Jones"), ("d", "Joan Smyth")]
    (folder / "n.csv").write_text("id,name\n" + "".join(f"{i},{name}\n" for i, name in rows))
    (folder / "m.csv").write_text("id,name\nx,Jon Smith\n")
    return folder


def lines(*arguments, **options):
    result = run("neighbours", *arguments, "--text", "name", "--id", "id", "--device", "cpu", **options)
    assert result.returncode == 0, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.decode().splitlines()]


def test_command_gives_a_line_a_pair(names):
    found = lines("n.csv", "--within", 2, cwd=names)
    assert [(one["id"], one["neighbour"], one["distance"]) for one in found] == [
        ("a", "b", 1), ("a", "d", 2), ("b", "d", 2)
    ]  # fmt: skip
    assert found[0]["value"] == pytest.approx(np.exp(-0.05))
    nearest = lines("n.csv", "m.csv", "-k", 1, cwd=names)
    assert [(one["id"], one["neighbour"]) for one in nearest] == [(i, "x") for i in "abcd"]
    assert nearest[0]["value"] == 1
    assert "distance" not in nearest[0]
    piped = lines("-", "--format", "csv", "--within", 2, cwd=names, stdin=(names / "n.csv").read_bytes())
    assert piped == found


def test_command_writes_files(names, tmp_path):
    given = ("neighbours", "n.csv", "--text", "name", "--id", "id", "--within", 2)
    assert run(*given, "-o", tmp_path / "n.jsonl", cwd=names).returncode == 0
    assert len((tmp_path / "n.jsonl").read_text().splitlines()) == 3
    assert run(given[0], "n.csv", *given[1:], "-o", tmp_path / "n.npz", cwd=names).returncode == 0
    matrix, about = scipy.sparse.load_npz(tmp_path / "n.npz"), np.load(tmp_path / "n.npz")
    assert matrix.shape == (4, 4)
    assert matrix.nnz == 10
    assert about["ids"].tolist() == about["column_ids"].tolist() == list("abcd")
    assert about["distances"].tolist() == [0, 1, 2, 1, 0, 2, 0, 2, 2, 0]


def test_command_says_what_is_wrong(names):
    assert "--nearest must be" in fails("neighbours", "n.csv", "-k", "0", code=2, cwd=names)
    assert "would replace" in fails("neighbours", "n.csv", "--within", "1", "-o", "n.csv", code=2, cwd=names)
    assert "only one corpus can be -, standard input" in fails("neighbours", "-", "-", code=2, cwd=names)
    assert "has none" in fails("neighbours", "n.csv", "--within", "1", "--kernel", "gap", code=2, cwd=names)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("low", "high", "letters"), [(0, 30, "abc"), (90, 110, "abcdefgh"), (100, 1500, "abcd")]
)
@pytest.mark.parametrize("kernel", [EditDistance(0.05), EditDistance(2.0, relative=True)])
def test_a_gpu_finds_the_same(low, high, letters, kernel):
    texts = copies(150, low, high, letters)
    for options in ({"within": 5}, {"at_least": 0.7}, {"within": 2000}, {"k": 3}, {"k": 2, "at_least": 0.8}):
        for others in (None, texts[::-2]):
            cpu, card = (
                neighbours(texts, others, kernel, device=device, memory=PAIR_BYTES * 100 * 100, **options)
                for device in ("cpu", "cuda")
            )
            for name in ("rows", "columns", "values", "distances"):
                np.testing.assert_array_equal(getattr(cpu, name), getattr(card, name))


@pytest.mark.gpu
def test_a_gpu_makes_a_list_again_that_was_too_short(monkeypatch):
    from textsvm.kernels.edit import cuda as edit_cuda

    monkeypatch.setattr(edit_cuda, "CAPACITY", 3)
    assert len(neighbours(["abc"] * 50, within=0, device="cuda")) == 50 * 49 // 2


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", [Spectrum((1, 3), "log"), BoundedGap(2), Linear()])
def test_a_gpu_finds_the_same_by_values(kernel):
    given = RANDOM.normal(size=(60, 4)) if kernel.structure.reads_vectors else copies(30, 5, 40, "abcd")
    for options in ({"at_least": 0.5}, {"k": 4}):
        cpu, card = (
            neighbours(given, kernel=kernel, device=device, memory=SMALL, **options)
            for device in ("cpu", "cuda")
        )
        assert len(cpu) == len(card)
        np.testing.assert_allclose(cpu.values, card.values, atol=1e-5)


def test_corpus_groups_near_duplicates(tmp_path):
    long = "the quick brown fox jumps over the lazy dog and sleeps " * 9
    rows = [long, "something else altogether", long + "!", "and one more text", long]
    (tmp_path / "c.csv").write_text("id,text,label\n" + "".join(f"{i},{t},x\n" for i, t in enumerate(rows)))
    result = run("corpus", tmp_path / "c.csv", "--id", "id", "--near-duplicates", "--json")
    assert json.loads(result.stdout)["near_duplicates"] == [["0", "2", "4"]]
    assert b"3 texts in 1 groups" in run("corpus", tmp_path / "c.csv", "--near-duplicates").stdout
    assert "near_duplicates" not in json.loads(run("corpus", tmp_path / "c.csv", "--json").stdout)


def test_the_page_says_what_is_found():
    page = Path(__file__).resolve().parent.parent / "docs" / "neighbours.md"
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, "docs/neighbours.md", "exec"), names)
    assert names["pairs"].distances.tolist() == [1, 2, 2]
    assert names["matrix"].nnz == 2


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(3, idf=True),
        Spectrum((1, 4), "log", normalised=False),
        Sum([Spectrum((1, 3), "intersection"), Spectrum(1, "log", idf=True, tokens="words")], [0.7, 0.3]),
    ],
)
@pytest.mark.parametrize(
    "conditions", [{"at_least": 0.511}, {"at_least": 0.803}, {"at_least": 1.0}, {"at_least": 0.601, "k": 2}]
)
def test_lists_of_rare_features_find_the_pairs_of_all_values(kernel, conditions, monkeypatch):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcde"), rng.integers(1, 7))) for _ in range(60)]
    texts = [" ".join(rng.choice(words, rng.integers(1, 5))) for _ in range(500)]
    texts += [text.replace("a", "e", 1) for text in texts[:80]] + texts[:30] + ["", "", "x"]
    wanted = neighbours(texts, kernel=kernel, device="cpu", **conditions)
    computed = []
    monkeypatch.setitem(search.SIDES, "cpu", 100)
    monkeypatch.setattr(search, "PREFIX_SIDE", 150)
    similar = search._similar
    monkeypatch.setattr(search, "_similar", lambda *a: computed.append(a) or similar(*a))
    found = neighbours(texts, kernel=kernel, device="cpu", **conditions)
    assert computed
    assert len(found) > 50
    # Rounding may exchange neighbours of equal values, of which `k` takes some.
    names = ("rows", "values") if "k" in conditions else ("rows", "columns", "values")
    assert len(found) == len(wanted)
    for name in names:
        here, there = (
            getattr(pairs, name)[
                np.lexsort((pairs.columns if "k" not in conditions else -pairs.values, pairs.rows))
            ]
            for pairs in (wanted, found)
        )
        np.testing.assert_allclose(here, there, rtol=0, atol=1e-6)
    assert (found.values[np.array(texts)[found.rows] == np.array(texts)[found.columns]] == 1).all()


def test_equal_long_texts_are_found_among_many(monkeypatch):
    # Sums of tens of thousands of equal products in float32 would lose them.
    monkeypatch.setitem(search.SIDES, "cpu", 8)
    draw, letters = np.random.default_rng(0), list("abcdefghijklmnopqrstuvwxyz")
    long = "".join(draw.choice(letters, 40_007))
    texts = ["".join(draw.choice(letters, 30)) for _ in range(20)] + [long, long]
    for p in (7, 8):
        found = neighbours(texts, kernel=Spectrum(p, "presence"), at_least=1.0)
        assert (found.rows.tolist(), found.columns.tolist()) == ([20], [21])


def test_without_texts():
    for texts in (([],), (["a"], [])):
        with pytest.raises(InputError, match="no texts to search"):
            neighbours(*texts)


def test_little_memory_takes_the_other_way(monkeypatch):
    monkeypatch.setitem(search.SIDES, "cpu", 8)
    texts = [f"text number {k % 7} of {k % 5}" for k in range(40)]
    found = [neighbours(texts, kernel=Spectrum(3), at_least=0.8, memory=m) for m in (None, "20kB")]
    assert found[0].rows.tolist() == found[1].rows.tolist()
    np.testing.assert_allclose(found[0].values, found[1].values, atol=1e-6)


def test_one_text_has_no_neighbours(tmp_path):
    (tmp_path / "names.txt").write_text("a name\nanother name\n")
    for options in ((), ("--format", "file")):
        result = run("neighbours", tmp_path / "names.txt", *options)
        assert (result.returncode, result.stdout) == (1, b"")
        assert "has one text, which has no neighbours; --format lines reads" in result.stderr.decode()
        assert (b"one document of 2 lines" in result.stderr) == (not options)
