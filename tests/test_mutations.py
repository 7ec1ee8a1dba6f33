"""Mutation scores and scores of k-mers against deciding each text, a planted motif found, and its logo."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from command import fails, run
from loading import load

from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    EditDistance,
    GappedKmers,
    GapWeighted,
    InputError,
    Linear,
    MultilabelSVC,
    On,
    OneClassSVM,
    Spectrum,
    Sum,
    kmer_scores,
    mutation_scores,
    save,
)
from textsvm.evaluation.explanation import explain
from textsvm.evaluation.judge import judge
from textsvm.evaluation.mutations import align, motifs
from textsvm.reporting import html
from textsvm.reporting.logo import Panel, document, panel_of_motif, panel_of_mutations
from textsvm.reporting.report import make_report

COMPLEMENT = str.maketrans("acgt", "tgca")
MOTIF = "tgactca"
GAPPED = GappedKmers(8, 2, canonical=True)


def mirrored(text):
    return text[::-1].translate(COMPLEMENT)


def sequences(random, n, motif="", length=60):
    """Random DNA with a motif on either strand, and where it begins."""
    texts, begins = [], []
    for _ in range(n):
        begin = int(random.integers(0, length - len(motif)))
        text = "".join(random.choice(list("acgt"), length))
        planted = motif if random.random() < 0.5 else mirrored(motif)
        texts.append(text[:begin] + planted + text[begin + len(motif) :])
        begins.append(begin)
    return texts, begins


@pytest.fixture(scope="module")
def sites():
    """A model of 200 sequences with a motif and 200 without, and its training texts."""
    random = np.random.default_rng(0)
    texts = sequences(random, 200, MOTIF)[0] + sequences(random, 200)[0]
    return SVC(GAPPED, device="cpu").fit(texts, ["site"] * 200 + ["none"] * 200), texts


@pytest.fixture(scope="module")
def few():
    return sequences(np.random.default_rng(1), 12, MOTIF, 20)[0]


def changed(text, i, letter):
    return text[:i] + letter + text[i + 1 :]


def check(found, text, value):
    """Scores of one side are the differences of `value`, a function of a list of texts."""
    others = [changed(text, i, c) for i in range(len(text)) for c in "acgt"]
    expected = (value(others) - value([text])).reshape(len(text), 4)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for i, letter in enumerate(text):
        assert found[i, "acgt".index(letter)] == 0


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum((2, 3)),
        Sum([Spectrum(3), GappedKmers(5, 2, keep_case=True)]),
        GappedKmers(6, 2, canonical=True, weight="count"),
        GapWeighted(2),
        EditDistance(gamma=0.1),
    ],
    ids=str,
)
def test_scores_are_differences_of_decision_values(kernel, few):
    model = SVC(kernel, device="cpu").fit(few, ["a", "b"] * 6)
    for found, text in zip(mutation_scores(model, few[:2]), few, strict=False):
        assert (found.text, found.letters, found.towards) == (text, "acgt", ["b"])
        check(found.scores[0], text, model.decision_function)
        assert found.values[0] == pytest.approx(model.decision_function([text])[0])
    [turned] = mutation_scores(model, few[1:2], positive="a")
    np.testing.assert_allclose(turned.scores, -found.scores, atol=1e-12)
    assert turned.towards == ["a"]


def test_scores_of_every_problem(few):
    kernel, labels = Spectrum(2), ["a", "b", "c"] * 4
    for strategy in ("ovr", "ovo", "crammer-singer"):
        model = SVC(kernel, multiclass=strategy, device="cpu").fit(few, labels)
        [found] = mutation_scores(model, few[:1])
        assert found.scores.shape == (3, 20, 4)
        assert found.towards == ["a", "b", "c"]
        if strategy == "ovr":
            for a in range(3):
                check(
                    found.scores[a],
                    few[0],
                    lambda texts, a=a, model=model: model.decision_function(texts)[:, a],
                )
        else:  # as the explanation of the predicted class
            [told] = explain(model, few[:1])
            side = found.towards.index(told.towards)
            [other] = explain(model, [changed(few[0], 3, "acgt"[few[0][3] == "a"])])
            if other.towards == told.towards:
                score = found.scores[side, 3, int(few[0][3] == "a")]
                assert score == pytest.approx(other.value - told.value, abs=1e-6)
    several = MultilabelSVC(kernel, device="cpu").fit(few, [("a",), ("a", "b"), ("b",)] * 4)
    [found] = mutation_scores(several, few[:1])
    for a in range(2):
        check(found.scores[a], few[0], lambda texts, a=a: several.decision_function(texts)[:, a])
    numbers = SVR(kernel, device="cpu").fit(few, np.arange(12.0))
    check(mutation_scores(numbers, few[:1])[0].scores[0], few[0], numbers.predict)
    region = OneClassSVM(kernel, device="cpu").fit(few)
    [found] = mutation_scores(region, few[:1])
    assert found.towards == ["inside"]
    check(found.scores[0], few[0], region.decision_function)
    calibrated = CalibratedSVC(SVC(kernel, device="cpu"), cv=2).fit(few, ["a", "b"] * 6)
    check(mutation_scores(calibrated, few[:1])[0].scores[0], few[0], calibrated.decision_function)


def test_texts_are_changed_as_the_model_reads_them(few, monkeypatch):
    monkeypatch.setattr("textsvm.evaluation.mutations.BATCH", 100)  # many batches
    model = SVC(Spectrum(2), max_length=15, device="cpu").fit([*few, "acgnn", "nnacg"], ["a", "b"] * 7)
    calls = []
    found = mutation_scores(
        model, [few[0].upper(), "", "nna"], "ACGT", progress=lambda *done: calls.append(done)
    )
    assert [each.text for each in found] == [few[0][:15], "", "nna"]
    assert calls[-1] == (15 * 3 + 2 * 4 + 3,) * 2
    check(found[0].scores[0], few[0][:15], model.decision_function)
    [n, _, a] = found[2].importance[0].tolist()
    assert n == pytest.approx(-found[2].scores[0, 0].mean())
    assert a == pytest.approx(-found[2].scores[0, 2].sum() / 3)
    assert found[1].importance.shape == (1, 0)
    assert mutation_scores(model, []) == []
    ElementTree.fromstring(document([panel_of_mutations("empty", found[1])], "empty"))


def test_a_motif_is_found(sites):
    model, _ = sites
    texts, begins = sequences(np.random.default_rng(2), 10, MOTIF)
    hits = []
    for found, begin in zip(mutation_scores(model, texts), begins, strict=True):
        most = np.argsort(-found.importance[0])[: len(MOTIF)]
        hits += [begin <= i < begin + len(MOTIF) for i in most.tolist()]
    assert np.mean(hits) > 0.9
    kmers = kmer_scores(model, 8)
    assert (kmers.towards, kmers.against) == (["site"], "none")
    for kmer in kmers.kmers[kmers.top(8)].tolist():
        assert MOTIF in kmer or MOTIF in mirrored(kmer)
    site, none = motifs(kmers)
    assert (site.towards, none.towards) == ("site", "none")
    consensus = "".join(site.letters[a] for a in site.frequencies.argmax(axis=1).tolist())
    assert MOTIF in consensus or MOTIF in mirrored(consensus)
    spelled = "".join(letters[-1] for letters in stacks(document([panel_of_motif(site)], "motif")) if letters)
    assert MOTIF in spelled.lower() or MOTIF in mirrored(spelled.lower())
    assert site.bits.sum(axis=1).max() > 1.5


def stacks(svg):
    """The letters of each column of a logo of one line, from the line up."""
    columns = {}
    for letter in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        if place := letter.get("transform"):
            x, bottom = map(float, re.match(r"translate\((\S+) (\S+)\)", place).groups())
            columns.setdefault(x, []).append((-bottom, letter.text))
    return [[letter for _, letter in sorted(columns[x])] for x in sorted(columns)]


def test_kmers_have_their_decision_values_on_both_strands_once(sites, tmp_path):
    model, _ = sites
    found = kmer_scores(model, 8)
    assert len(found.kmers) == (4**8 + 4**4) // 2  # palindromes are their own reverse complement
    assert found.kmers.tolist() == sorted(found.kmers)
    some = np.random.default_rng(3).choice(len(found.kmers), 50, replace=False)
    kmers = found.kmers[some].tolist()
    for texts in (kmers, list(map(mirrored, kmers))):
        values = model.decision_function(texts) - model.intercept_[0]
        np.testing.assert_allclose(found.scores[some, 0], values, atol=1e-5)
    one = SVC(Spectrum(3), device="cpu").fit(["acgu" * 3, "aaccgguu"], [0, 1])
    assert len(kmer_scores(one, 3).kmers) == 64
    save(one, tmp_path / "m.textsvm", texts=False)
    again = kmer_scores(load(tmp_path / "m.textsvm"), 4)
    assert again.letters == "acgu"
    np.testing.assert_allclose(again.scores, kmer_scores(one, 4).scores, atol=1e-4)


def test_what_cannot_be_scored_is_said(few):
    model = SVC(GappedKmers(6, 2), device="cpu").fit(few, ["a", "b"] * 6)
    for k, message in ((5, "windows of 6 letters"), (12, "16,777,216 k-mers")):
        with pytest.raises(InputError, match=message):
            kmer_scores(model, k)
    for alphabet, message in (("a", "two letters"), ("", "two letters"), ("acg t", "' ' of the alphabet")):
        with pytest.raises(InputError, match=message):
            mutation_scores(model, few, alphabet)
    words = SVC(Spectrum(1, tokens="words"), device="cpu").fit(["one two", "two six", "ten"], [0, 1, 1])
    with pytest.raises(InputError, match="alphabet='acgt'"):
        mutation_scores(words, ["one"])
    with pytest.raises(InputError, match="tokens, not letters"):
        kmer_scores(words, 2, "acgt")
    [found] = mutation_scores(words, ["one"], "stx")  # any kernel can be asked: "sne" is another word
    others = words.decision_function(["sne", "one"])
    assert found.scores[0, 0, 0] == pytest.approx(others[0] - others[1], abs=1e-6)
    for given, kernel in ((np.eye(4), Linear()), (np.eye(4), "precomputed")):
        with pytest.raises(InputError, match="no k-mers"):
            kmer_scores(SVC(kernel, device="cpu").fit(given, [0, 1] * 2), 3)
    table = {"x": few}
    with pytest.raises(InputError, match="columns"):
        mutation_scores(SVC(On("x", Spectrum(2)), device="cpu").fit(table, ["a", "b"] * 6), table)


def test_kmers_are_aligned_where_they_overlap():
    places = np.array([["acgt".index(c) for c in kmer] for kmer in ("gattac", "attaca", "agatta")])
    counts = align(places[:, None], np.array([3.0, 2.0, 1.0]), 4)
    assert counts.sum() == pytest.approx(6 * 6)
    covered = counts[counts.sum(axis=1) > 1e-9]
    assert "".join("acgt"[a] for a in covered.argmax(axis=1)) == "agattaca"
    np.testing.assert_allclose(covered.sum(axis=1), [1, 4, 6, 6, 6, 6, 5, 2])


def test_a_logo_is_drawn_to_scale_in_light_and_dark():
    heights = np.array([[1.0, -0.5, 0, 0], [0.25, 0.75, 0, 0]])
    drawn = document([Panel("<one> & \x1b", "acgt", heights, "bits")], "A & B")
    root = ElementTree.fromstring(drawn)
    assert (root.get("role"), root[0].text) == ("img", "A & B")
    assert "prefers-color-scheme: dark" in drawn
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    letters = [each for each in root.iter("{http://www.w3.org/2000/svg}text") if each.get("transform")]
    placed = {}
    for each in letters:
        x, y, _, stretch = map(float, re.findall(r"-?\d+\.?\d*", each.get("transform")))
        placed[each.text, x] = y, stretch
    (first, second) = sorted({x for _, x in placed})
    one, under = placed["A", first], placed["C", first]
    assert under[1] == pytest.approx(one[1] / 2, rel=1e-3)
    pixels = 20 * 0.72 * one[1]  # of a height of 1
    assert under[0] == pytest.approx(one[0] + pixels / 2, abs=0.1)  # hangs from the line
    assert placed["C", second][0] == pytest.approx(placed["A", second][0] - pixels / 4, abs=0.1)
    assert len(letters) == 4


def test_long_sequences_are_drawn_in_lines(sites):
    model, _ = sites
    text = sequences(np.random.default_rng(5), 1, MOTIF, 130)[0][0]
    [found] = mutation_scores(model, [text])
    drawn = document([panel_of_mutations("it", found)], "it")
    assert drawn.count('<g class="letters"') == 3
    assert ">130</text>" in drawn


def test_mistakes_on_sequences_are_drawn_in_a_report(sites):
    model, texts = sites
    labels = ["none", *["site"] * 199, *["none"] * 200]
    results = judge(model, texts[:300], labels[:300]).with_intervals(20)
    page = html.render(make_report(model.model_, results, texts[:300], list(map(str, range(300)))))
    assert page.count('<svg class="logo"') == 1
    assert "AUPRC" in page


@pytest.mark.slow
def test_command_line(sites, tmp_path):
    model, texts = sites
    path = tmp_path / "m.textsvm"
    save(model, path)
    (tmp_path / "new.csv").write_text(f"id,text\none,{texts[0]}\ntwo,{texts[300]}\n")
    table, picture = tmp_path / "mutations.tsv", tmp_path / "logo.svg"
    done = run("explain", path, tmp_path / "new.csv", "--mutations", table, "--logo", picture)
    assert done.returncode == 0, done.stderr.decode()
    assert b"positive scores are for site" in done.stderr
    head, *lines = table.read_text().splitlines()
    assert head.split("\t") == ["id", "position", "reference", "alternative", "score"]
    assert len(lines) == 2 * 60 * 3
    [found, _] = mutation_scores(model, [texts[0], texts[300]])
    for line in lines[::17][:10]:
        identifier, position, reference, alternative, score = line.split("\t")
        i = int(position) - 1
        assert (identifier, texts[0][i]) == ("one", reference)
        expected = found.scores[0, i, "acgt".index(alternative)]
        assert float(score) == pytest.approx(expected, abs=1e-7)
    ElementTree.fromstring(picture.read_text())
    done = run("explain", path, "--kmers", "8", "--top", "3", "--logo", picture)
    kmers = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert [len(each) for each in kmers] == [2, 2, 2]
    assert float(kmers[0][1]) >= float(kmers[1][1]) > 0
    assert "aligned" in picture.read_text()
    three = tmp_path / "three.textsvm"
    save(SVC(Spectrum(2), device="cpu").fit(texts[:9], ["a", "b", "c"] * 3), three)
    done = run("explain", three, "--kmers", "2", "-o", tmp_path / "k.tsv", "-q")
    assert (done.stdout, done.stderr) == (b"", b"")
    kmers = [line.split("\t") for line in (tmp_path / "k.tsv").read_text().splitlines()]
    assert [each[2] for each in kmers] == ["a"] * 16 + ["b"] * 16 + ["c"] * 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--top", "3", "--logo", "x.svg"], "--top reads only the model"),
        (["--alphabet", "acgt"], "--alphabet needs --mutations, --kmers or --logo"),
        (["--kmers", "0"], "--kmers must be at least 1, got 0"),
        (["--kmers", "4", "--mutations", "x"], "reads only the model"),
        (["--kmers", "4", "--json"], "--json is for explanations"),
        (["--logo", "x.png"], "must end in .svg"),
    ],
)
def test_options_that_do_not_go_together(options, message, tmp_path):
    (tmp_path / "m").write_text("")
    assert message in fails("explain", tmp_path / "m", *options, code=2)
