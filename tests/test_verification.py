"""Verification of authors by imposters: textsvm.verify and `textsvm verify`."""

import json

import numpy as np
import pytest
from command import run

from textsvm import InputError, verify
from textsvm.evaluation.metrics import roc_area
from textsvm.evaluation.verification import _c_at_1, _limits

WORDS = [f"{a}{b}{c}" for a in "bdgklmnprst" for b in "aeiou" for c in ("n", "r", "st", "l", "")]


def author(seed, own=0.5):
    """A function that writes texts of an author: words by own frequencies, with names of each book."""
    frequencies = np.random.default_rng(seed).dirichlet(np.full(len(WORDS), 0.3))
    frequencies = own * frequencies + (1 - own) / len(WORDS)

    def write(book, n_words):
        random = np.random.default_rng((seed, book))
        words = random.choice(WORDS, n_words, p=frequencies)
        names = random.choice([f"{word.title()}{seed}x{book}" for word in WORDS[:9]], n_words)
        return " ".join(np.where(random.random(n_words) < 0.1, names, words))

    return write


def library(n_authors, n_books, n_words=600, own=0.5):
    writers = [author(seed, own) for seed in range(n_authors)]
    texts = [write(book, n_words) for write in writers for book in range(n_books)]
    return writers, texts, np.repeat([f"author {a}" for a in range(n_authors)], n_books).tolist()


def test_own_author_is_verified_and_a_stranger_is_not():
    writers, texts, labels = library(6, 4)
    stranger = author(99)
    disputed = [*(write(50, 600) for write in writers), stranger(50, 600), stranger(51, 1900)]
    result = verify(texts, labels, disputed)
    assert result.authors == sorted(set(labels))
    assert result.reliable
    verdicts = np.array([[result.verdict(score) for score in row] for row in result.scores])
    assert (np.diag(verdicts[:6]) == "yes").all()
    assert (verdicts == "yes").sum() == 6
    again = verify(texts, labels, disputed)
    assert (again.scores == result.scores).all()
    assert again.limits == result.limits


def test_books_that_share_names_need_groups():
    """Pieces of one book are alike; only with groups are the limits those of new books."""
    writers = [author(seed, 0.35) for seed in range(5)]
    texts = [write(book, 500) for write in writers for book in (0, 1)]
    pieces = [text[i : i + 700] for text in texts for i in (0, 700)]
    labels = np.repeat([f"author {a}" for a in range(5)], 4).tolist()
    books = np.repeat(np.arange(10), 2)
    disputed = [write(7, 300)[:700] for write in writers]
    alone, grouped = (verify(pieces, labels, disputed, groups) for groups in (None, books))
    assert alone.own.mean() > grouped.own.mean()
    assert (alone.scores == grouped.scores).all()
    renamed = verify(pieces, labels, disputed, [f"book {book}" for book in books])
    assert (renamed.own == grouped.own).all()


def test_texts_that_cannot_be_told_apart_have_no_verdict():
    _, texts, labels = library(5, 3, 300, own=0.0)
    result = verify(texts, labels, [texts[0][:600]])
    assert not result.reliable
    assert {result.verdict(score) for score in result.scores.ravel()} == {"unclear"}


def test_many_and_long_texts_are_sampled():
    _, texts, labels = library(4, 3, 60_000)
    result = verify(texts, labels, [texts[0], author(1)(9, 200)], rounds=3)
    assert len(result.own) <= 600
    assert np.isfinite(result.scores).all()


@pytest.mark.parametrize("seed", range(20))
def test_limits_have_the_largest_c_at_1(seed):
    random = np.random.default_rng(seed)
    own = np.round(random.beta(3, 1 + seed % 3, 30), 2)
    others = np.round(random.beta(1, 2, 80), 2)
    low, high = _limits(own, others)
    for other_low in np.linspace(0, 1, 11):
        for other_high in np.linspace(other_low, 1, 11):
            assert _c_at_1(own, others, low, high) >= _c_at_1(own, others, other_low, other_high) - 1e-9
    # All answered: c@1 is balanced accuracy.
    balanced = (np.mean(own >= 0.5) + np.mean(others < 0.5)) / 2
    assert _c_at_1(own, others, 0.5, 0.5) == pytest.approx(balanced)
    truth = np.repeat([True, False], [30, 80])
    assert 0 <= roc_area(truth, np.concatenate([own, others])) <= 1


@pytest.mark.parametrize(
    ("texts", "labels", "disputed", "message"),
    [
        (["x" * 600] * 4, list("aabb"), ["y" * 600], "three authors"),
        (["x" * 600] * 3, list("abc"), ["y" * 600], "give two"),
        (["x" * 600] * 6, list("aabbcc"), ["y" * 600, "short"], "disputed text 2 has 5 characters"),
        (["x" * 600] * 6, list("aabbcc"), [], "no disputed"),
        (["x" * 600] * 6, list("aabbc"), ["y" * 600], "6 texts, 5 labels"),
    ],
)
def test_wrong_input_is_refused(texts, labels, disputed, message):
    with pytest.raises(InputError, match=message):
        verify(texts, labels, disputed)


@pytest.fixture
def folders(tmp_path):
    writers, texts, labels = library(4, 3)
    for i, (text, label) in enumerate(zip(texts, labels, strict=True)):
        path = tmp_path / "authors" / label / f"{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "own.txt").write_text(writers[2](50, 600))
    (tmp_path / "stranger.txt").write_text(author(99)(50, 600))
    (tmp_path / "short.txt").write_text("Too short.")
    return tmp_path


def test_command(folders):
    result = run("verify", folders / "authors", folders / "own.txt", folders / "stranger.txt")
    assert result.returncode == 0
    own, stranger = result.stdout.decode().split("stranger.txt")
    assert "author 2" in own.splitlines()[4]
    assert "yes" in own.splitlines()[4]
    assert "yes " not in stranger.split("yes from")[0]
    assert b"--groups" in result.stderr
    facts = json.loads(run("verify", folders / "authors", folders / "own.txt", "--json").stdout)
    assert np.argmax(facts["scores"][0]) == 2
    assert facts["reliable"] is True


def test_command_refuses_a_short_text(folders):
    result = run("verify", folders / "authors", folders / "short.txt")
    assert result.returncode == 1
    assert b"10 characters, too few" in result.stderr
    assert result.stderr.count(b"textsvm: ") == 1


def test_tables_and_files_are_disputed_alike(folders):
    _, texts, labels = library(4, 3)
    rows = "".join(f"{label},{text}\n" for label, text in zip(labels, texts, strict=True))
    (folders / "known.csv").write_text("who,words\n" + rows)
    own = (folders / "own.txt").read_text()
    (folders / "own.csv").write_text("id,words\nx," + own + "\n")
    options = ("--text", "words", "--label", "who", "--json")
    of_file, of_table = (
        json.loads(run("verify", folders / "known.csv", folders / name, *options).stdout)
        for name in ("own.txt", "own.csv")
    )
    assert of_file["scores"] == of_table["scores"]
    assert of_table["ids"] == ["x"]
