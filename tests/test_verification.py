"""Verification of authors by imposters: textsvm.verify and `textsvm verify`."""

import json

import numpy as np
import pytest
from command import run, works
from refusals import refuses

from textsvm import verify
from textsvm.cli.console import Console
from textsvm.cli.verify import _show as show
from textsvm.evaluation import verification
from textsvm.evaluation.metrics import roc_area
from textsvm.evaluation.verification import _c_at_1, _limits, verify_all

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
    disputed = [*(write(50, 600) for write in writers), author(99)(50, 600), author(99)(51, 1900)]
    results = [verify(texts, labels, text) for text in disputed]
    assert results[0].authors == sorted(set(labels))
    assert all(result.reliable for result in results)
    verdicts = np.array([result.as_dict()["verdicts"] for result in results])
    assert (np.diag(verdicts[:6]) == "yes").all()
    assert (verdicts == "yes").sum() == 6
    again = verify(texts, labels, disputed[0])
    assert (again.scores == results[0].scores).all()
    assert again.limits == results[0].limits


def test_books_that_share_names_need_groups():
    """Pieces of one book are alike; only with groups are the limits those of new books."""
    writers = [author(seed, 0.35) for seed in range(5)]
    texts = [write(book, 500) for write in writers for book in (0, 1)]
    pieces = [text[i : i + 700] for text in texts for i in (0, 700)]
    labels = np.repeat([f"author {a}" for a in range(5)], 4).tolist()
    books = np.repeat(np.arange(10), 2)
    disputed = writers[0](7, 300)[:700]
    alone, grouped = (verify(pieces, labels, disputed, groups) for groups in (None, books))
    assert alone.own.mean() > grouped.own.mean()
    renamed = verify(pieces, labels, disputed, [f"book {book}" for book in books])
    assert (renamed.own == grouped.own).all()


def test_texts_that_cannot_be_told_apart_have_no_verdict():
    _, texts, labels = library(5, 3, 300, own=0.0)
    result = verify(texts, labels, texts[0][:600])
    assert not result.reliable
    assert set(result.as_dict()["verdicts"]) == {"unclear"}


def test_many_and_long_texts_are_sampled():
    _, texts, labels = library(4, 3, 60_000)
    for disputed in (texts[0], author(1)(9, 200)):
        result = verify(texts, labels, disputed, rounds=3)
        assert len(result.own) <= 600
        assert np.isfinite(result.scores).all()


@pytest.mark.parametrize("most", [600, 60])
def test_a_short_text_beside_a_long_text_is_sampled_too(most, monkeypatch):
    monkeypatch.setattr(verification, "MOST_PIECES", most)
    writers = [author(seed) for seed in range(3)]
    texts = [write(book, n) for write in writers for book, n in ((0, 40_000), (1, 300))]
    result = verify(texts, np.repeat(list("abc"), 2).tolist(), writers[1](5, 400))
    assert result.authors[int(result.scores.argmax())] == "b"
    assert len(result.own) == len(result.others) / 2  # each piece has a piece of another group
    result = verify(["ab cd ef " * 100] * 6, list("aabbcc"), "ab cd ef " * 67)
    assert (result.length, len(result.own)) == (603, 6)  # a rest of half a length is no piece, of more one
    assert len(verify(["ab cd ef " * 100] * 6, list("aabbcc"), "ab cd ef " * 64).own) == 12


def test_a_script_without_spaces_is_compared_by_its_characters():
    signs = [chr(0x4E00 + i) for i in range(300)]
    frequencies = np.random.default_rng(0).dirichlet(np.full(300, 0.05), 3)
    random = np.random.default_rng(1)
    texts = ["".join(random.choice(signs, 700, p=frequencies[a])) for a in (0, 0, 1, 1, 2, 2)]
    own = verify(texts, list("aabbcc"), "".join(random.choice(signs, 700, p=frequencies[1])))
    assert own.authors[int(own.scores.argmax())] == "b"


def test_shared_lines_are_left_out():
    writers, texts, labels = library(4, 4)
    head = "Licence of the archive, by which texts may be copied and read by everybody.\n" * 9 + "\n"
    marked = [head + text if label == "author 0" else text for text, label in zip(texts, labels, strict=True)]
    for disputed in (writers[1](50, 600), author(99)(50, 600)):
        plain, with_head = verify(texts, labels, disputed), verify(marked, labels, head + disputed)
        assert with_head.left_out
        assert not plain.left_out
        np.testing.assert_allclose(plain.scores, with_head.scores, atol=0.1)


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
    assert 0 <= roc_area(np.repeat([True, False], [30, 80]), np.concatenate([own, others])) <= 1


@pytest.mark.parametrize(
    ("texts", "labels", "disputed", "message"),
    [
        (["x" * 600] * 4, list("aabb"), "y" * 600, "three authors"),
        (["x" * 600] * 3, list("abc"), "y" * 600, "give two"),
        (["x" * 600] * 6, list("aabbcc"), "short", "a disputed text has 5 characters"),
        (["x" * 600] * 6, list("aabbcc"), "", "a disputed text has 0 characters"),
        (["x" * 600] * 6, list("aabbc"), "y" * 600, "6 texts, 5 labels"),
        ([chr(97 + i) * 2 for i in range(6)], list("aabbcc"), "y" * 600, "nothing can be compared"),
    ],
)
def test_wrong_input_is_refused(texts, labels, disputed, message):
    refuses(message, verify, texts, labels, disputed)


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
    result = works("verify", folders / "authors", folders / "own.txt", folders / "stranger.txt")
    own, stranger = result.stdout.decode().split("stranger.txt")
    assert "author 2" in own.splitlines()[4]
    assert "yes" in own.splitlines()[4]
    assert "yes " not in stranger.split("yes from")[0]
    assert b"--groups" in result.stderr


def test_command_with_labels_in_names(folders, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in (folders / "authors").rglob("*.txt"):
        (flat / f"{path.parent.name}_{path.name}").write_text(path.read_text())
    result = works("verify", flat, "--label", "name:^([^_]+)_", folders / "own.txt")
    assert "author 2" in result.stdout.decode().splitlines()[4]


def test_command_refuses_a_short_text(folders):
    result = run("verify", folders / "authors", folders / "short.txt")
    assert result.returncode == 1
    assert b"short.txt has 10 characters, too few" in result.stderr
    assert result.stderr.count(b"textsvm: ") == 1


def test_tables_and_files_are_disputed_alike(folders):
    _, texts, labels = library(4, 3)
    rows = "".join(f"{label},{text}\n" for label, text in zip(labels, texts, strict=True))
    (folders / "known.csv").write_text("who,words\n" + rows)
    (folders / "own.csv").write_text("id,words\nx," + (folders / "own.txt").read_text() + "\n")
    options = ("--text", "words", "--label", "who", "--json")
    of_file, of_table = (
        json.loads(run("verify", folders / "known.csv", folders / name, *options).stdout)["texts"][0]
        for name in ("own.txt", "own.csv")
    )
    assert of_file["scores"] == of_table["scores"]
    assert of_table["id"] == "x"


@pytest.mark.parametrize("spelling", [("--text", "head", "--text", "body"), ("--text", "head,body")])
def test_several_columns_are_one_text(folders, spelling):
    """Of the known texts and of the disputed ones."""
    writers, texts, labels = library(4, 3)

    def row(name, text):
        return f"{name},{text[:700]},{text[700:]}\n"

    own = writers[2](50, 600)
    (folders / "k.csv").write_text("who,head,body\n" + "".join(map(row, labels, texts)))
    (folders / "d.csv").write_text("id,head,body\n" + row("x", own))
    (folders / "joined.csv").write_text("who,text\n" + "".join(
        f"{label},{text[:700]} {text[700:]}\n" for label, text in zip(labels, texts, strict=True)
    ))  # fmt: skip
    (folders / "joined.txt").write_text(f"{own[:700]} {own[700:]}")
    options = ("--label", "who", "--json")
    several = run("verify", folders / "k.csv", folders / "d.csv", *spelling, *options)
    single = run("verify", folders / "joined.csv", folders / "joined.txt", "--text", "text", *options)
    first, second = (json.loads(result.stdout)["texts"][0] for result in (several, single))
    assert first["length"] == second["length"] > 2000
    np.testing.assert_allclose(first["scores"], second["scores"], atol=0.05)


def test_folders_are_books(tmp_path):
    """--level tells authors from books, and --groups compares a piece with other books alone."""
    writers = [author(seed, 0.35) for seed in range(4)]
    for a, write in enumerate(writers):
        for book in (0, 1):
            text = write(book, 500)
            for k in (0, 1):
                path = tmp_path / "authors" / f"author {a}" / f"book {book}" / f"{k}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text[700 * k : 700 * (k + 1)])
    (tmp_path / "d.txt").write_text(writers[1](9, 300)[:700])
    options = (tmp_path / "authors", tmp_path / "d.txt", "--level", "1", "--json")
    alone, grouped = (
        json.loads(run("verify", *options, *more).stdout)["texts"][0] for more in ((), ("--groups", "folder"))
    )
    assert alone["authors"] == grouped["authors"] == [f"author {a}" for a in range(4)]
    assert np.mean(alone["own"]) > np.mean(grouped["own"])


def test_several_disputed_texts_are_verified_as_if_each_were_alone():
    """Also of several lengths, and with symbols that no other text has."""
    writers, texts, labels = library(4, 4)
    disputed = {
        "own": writers[1](50, 600), "stranger": author(99)(50, 600) + " ζ", "long": writers[2](51, 2500),
        "short": writers[3](52, 200), "again": writers[1](53, 600),
    }  # fmt: skip
    together = verify_all(texts, labels, disputed, rounds=40)
    for result, text in zip(together, disputed.values(), strict=True):
        alone = verify(texts, labels, text, rounds=40)
        np.testing.assert_array_equal(result.scores, alone.scores)
        np.testing.assert_array_equal(result.own, alone.own)
        assert (result.limits, result.length) == (alone.limits, alone.length)


def test_false_yes_is_that_of_known_texts_whose_author_is_left_out():
    writers, texts, labels = library(5, 3)
    result = verify(texts, labels, writers[0](50, 600))
    alone, again = result.others.reshape(len(texts), -1), []
    for i, text in enumerate(texts):
        rest = [k for k in range(len(texts)) if labels[k] != labels[i]]
        again.append(verify([texts[k] for k in rest], [labels[k] for k in rest], text).scores)
    assert np.corrcoef(np.ravel(again), alone.ravel())[0, 1] > 0.85  # features are dealt by chance
    assert abs(np.mean(again) - alone.mean()) < 0.05
    assert result.false_yes == np.mean(alone.max(axis=1) >= result.limits[1])
    assert result.true_yes == np.mean(result.own >= result.limits[1])
    assert result.as_dict()["false_yes"] == result.false_yes


def test_no_yes_where_strangers_would_get_it(capsys):
    """Two works of each of six authors, in pairs of authors who write alike: one wins for the other."""
    writers = [author(seed // 2) for seed in range(6)]
    texts = [write(book + 10 * a, 600) for a, write in enumerate(writers) for book in (0, 1)]
    labels = np.repeat([f"author {a}" for a in range(6)], 2).tolist()
    result = verify(texts, labels, writers[0](50, 600))
    assert result.reliable
    assert (result.strangers == 1).mean() > 0.2
    assert result.limits[1] > 1
    assert result.scores.max() > 0.8
    assert "yes" not in result.as_dict()["verdicts"]
    assert (result.true_yes, result.false_yes) == (0, 0)
    show(Console(), "d.txt", result)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{np.mean(result.strangers == 1):.0%} have the score 1 for another" in shown


def test_the_limit_of_yes_bounds_the_share_of_strangers():
    for n_authors, own in ((4, 0.5), (6, 0.3), (8, 0.25), (5, 0.2)):
        writers, texts, labels = library(n_authors, 3, own=own)
        result = verify(texts, labels, writers[0](50, 600), rounds=60)
        assert result.false_yes <= 0.2
        assert result.false_yes == np.mean(result.strangers >= result.limits[1])
