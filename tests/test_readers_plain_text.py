"""Texts in lines and in a folder for each class."""

import lzma
import re

import pytest
from refusals import refuses

from textsvm.errors import InputError
from textsvm.readers.charsets import is_binary
from textsvm.readers.plain_text import is_lines, part_of
from textsvm.readers.read import read_corpus, read_documents
from textsvm.readers.stream import stream_corpus


def test_label_tab_text(write, tmp_path):
    write("r8-train.txt.xz", lzma.compress(b"earn\tnet profit\nacq\tbuys a firm\n"))
    write("r8-test.txt", "earn\tdividend\n\nonly text\n")
    corpus = read_corpus(tmp_path / "r8-train.txt.xz")
    assert (corpus.format, corpus.labels, corpus.ids) == ("lines", ["earn", "acq"], ["1", "2"])
    both = read_corpus(tmp_path, "lines")
    assert both.part == ["test", "train", "train"]
    assert both.problems == [("r8-test.txt, line 3", "left out: it is not a label, a TAB and a text")]


def test_a_text_keeps_its_tabs(write):
    data = "earn\tnet\tprofit\t\nacq\t\tbuys\n"
    corpus = read_corpus(write("x.txt", data), "lines")
    assert corpus.labels == ["earn", "acq"]
    assert corpus.texts == ["net\tprofit\t", "\tbuys"]
    with pytest.raises(InputError, match="a text without labels"):  # or a table: the user has to say which
        read_corpus(write("y.txt", data))


@pytest.mark.parametrize("line", ["{}\tnumber {}", "__label__{} number {}"], ids=["tab", "fasttext"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"], ids=repr)
def test_the_last_line_counts_however_it_ends(line, end, write):
    for n in (1, 2, 3):
        path = write(f"{n}.txt", "\n".join(line.format("ab"[i % 2], i) for i in range(n)) + end)
        corpus = read_corpus(path, "lines")
        assert corpus.labels == ["ab"[i % 2] for i in range(n)]
        assert corpus.texts == [f"number {i}" for i in range(n)]


def test_a_folder_per_class(write, tmp_path):
    for name in ("train/pos/0_9.txt", "train/neg/0_1.txt", "test/pos/0_9.txt"):
        write(f"aclImdb/{name}", f"review {name}")
    write("aclImdb/train/neg/1_1.txt", bytes(50))
    write("aclImdb/README", "about it")
    corpus = read_corpus(tmp_path)
    assert corpus.format == "folders"
    rows = zip(corpus.ids, corpus.labels, corpus.part, strict=True)
    assert sorted(rows) == [
        ("aclImdb/test/pos/0_9.txt", "pos", "test"),
        ("aclImdb/train/neg/0_1.txt", "neg", "train"),
        ("aclImdb/train/pos/0_9.txt", "pos", "train"),
    ]
    assert sorted(corpus.problems) == [
        ("aclImdb/README", "left out: it lies beside the class folders, not in one"),
        ("aclImdb/train/neg/1_1.txt", "left out: it is binary"),
    ]
    assert read_corpus(tmp_path, part="test").ids == ["aclImdb/test/pos/0_9.txt"]
    assert read_corpus(tmp_path / "aclImdb" / "train" / "pos").labels is None


def test_bounds_of_detection():
    """A TAB after a hundred characters belongs to a text; the outermost name with a single part counts."""
    assert is_lines("a" * 100 + "\ttext\nb\ttext\n")
    assert not is_lines("a" * 101 + "\ttext\nb\ttext\n")
    assert part_of("train/x.txt") == part_of("training-1/test.txt") == "train"
    assert part_of("train-test/validation.txt") == "dev"
    assert part_of("train-test.txt") is part_of("constraints/detest.txt") is None


def test_a_text_may_have_a_few_control_characters():
    """More than eight, and more than a twentieth, are of binary data."""
    assert not is_binary(b"\x01" * 8 + b"a" * 20)
    assert is_binary(b"\x01" * 9 + b"a" * 20)
    assert not is_binary(b"\x01" * 50 + b"a" * 950)
    assert is_binary(b"\x01" * 51 + b"a" * 949)


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ("ax ay c d e", ["a,x", "a,y", "c", "d", "e"]),
        ("ax ay bx by c", [*"aabbc"]),
        ("ax bx cx", ["a,x", "b,x", "c,x"]),
    ],
)
def test_a_comma_ends_a_label_if_most_have_one_and_few_are_different(written, labels, write):
    rows = [f"__label__{','.join(word)} number {i}\n" for i, word in enumerate(written.split())]
    assert read_corpus(write("t.txt", "".join(rows) + "__label__e last\n")).labels == [*labels, "e"]


def test_labels_of_fasttext_anywhere(write):
    path = write(
        "t.txt", "one __label__a\ntwo __label__b three\n__label__a __label__b four\nfive\nx__label__c\n"
    )
    corpus = read_corpus(path)
    assert corpus.texts == ["one", "two three", "four"]
    assert corpus.labels == [("a",), ("b",), ("a", "b")]
    assert corpus.problems == [("t.txt", "lines without a __label__, which are left out: 2")]
    assert read_documents(path).texts == ["one", "two three", "four", "five", "x__label__c"]


TAGGED = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\ncalls NN O\n\nPeter NNP B-PER\nsleeps VBZ O\n\n"


@pytest.mark.parametrize(
    "content", [TAGGED, TAGGED.replace(" ", "\t"), "the\tDT\ncat\tNN\n\na\tDT\ndog\tNN\n\n"]
)
@pytest.mark.parametrize("name", ["t.conll", "t.txt", "t.tsv"])
def test_tags_of_tokens_are_no_labels(name, content, write):
    with pytest.raises(InputError, match="has a tag for each token"):
        read_corpus(
            write(name, content if "\t" in content or name != "t.tsv" else content.replace(" ", "\t"))
        )


def test_sentences_of_conll(write):
    assert read_documents(write("t.conll", TAGGED)).texts == ["EU rejects calls", "Peter sleeps"]
    head = "# text = book it!\n# intent: book\n1\tbook\tbook\tO\n2\tit\tbook\tB-x\n\n"
    other = "# label = stop\n1\tplease\tstop\tO\n2\tstop\tstop\tO\n\n"
    corpus = read_corpus(write("u.conll", head + other))
    assert (corpus.texts, corpus.labels) == (["book it!", "please stop"], ["book", "stop"])


def test_named_charset(write):
    text = "Над седой равниной моря ветер тучи собирает."
    for charset in ("cp1251", "koi8-r", "utf-16-le", "mac_cyrillic"):
        path = write("a/t.txt", text.encode(charset))
        assert read_corpus(path.parent.parent, encoding=charset).texts == [text]
    assert read_corpus(path.parent.parent).problems[0][1].endswith("--encoding names another charset")
    mac = write("t.csv", "label,text\nÄnderung,a\nÄnderung,b\n".encode("mac_roman"))
    assert read_corpus(mac, encoding="macroman").labels == ["Änderung"] * 2
    assert stream_corpus(mac, encoding="macroman").stored().labels == ["Änderung"] * 2
    refuses("no charset 'cp0'; usual ones are", read_corpus, mac, encoding="cp0")
    refuses(r"t\.csv is not in the charset utf-8", read_corpus, mac, encoding="utf-8")


NAMES = {
    "Austen_Emma.txt": "Miss Woodhouse",
    "sub/Austen_Persuasion.txt": "Anne",
    "Bronte_Villette.txt": "Lucy",
}


@pytest.mark.parametrize("reader", [read_corpus, lambda *a, **k: stream_corpus(*a, **k).stored()])
def test_labels_in_the_names_of_files(write, tmp_path, reader):
    for name, text in NAMES.items():
        write(f"novels/{name}", text)
    corpus = reader(tmp_path / "novels", label="name:^([^_]+)_")
    assert sorted(zip(corpus.ids, corpus.labels, corpus.texts, strict=True)) == [
        ("Austen_Emma.txt", "Austen", "Miss Woodhouse"),
        ("Bronte_Villette.txt", "Bronte", "Lucy"),
        ("sub/Austen_Persuasion.txt", "Austen", "Anne"),
    ]
    assert "label name:^([^_]+)_ (2)" in corpus.reading_line
    assert reader(tmp_path / "novels", recorded={"label": "name:^([^_]+)_"}).labels == corpus.labels


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("name:^(B[^_]+)_", "Austen_Emma.txt: its name has no label by"),
        ("name:^([^_]*?)", "has no label"),
        ("name:^[^_]+_", "with one group"),
        ("name:^(([^_]+)_)", "with one group"),
        ("name:^([^_]+_", "must be a regular expression"),
    ],
)
def test_names_of_files_that_do_not_match(write, tmp_path, label, message):
    for name, text in NAMES.items():
        write(name, text)
    refuses(re.escape(message), read_corpus, tmp_path, label=label)


def test_a_file_for_each_class(write, tmp_path):
    """A text for each line, or for each paragraph; a text for each file gives a note."""
    write("pos.txt", "good\nvery\tgood\n\n \nfine\n\n")
    write("neg.txt", "bad\nworse\n")
    by_name = {"label": r"name:(\w+)\.txt"}
    lines = read_corpus(tmp_path, "plain", **by_name)
    assert sorted(zip(lines.texts, lines.labels, strict=True)) == [
        ("bad", "neg"), ("fine", "pos"), ("good", "pos"), ("very\tgood", "pos"), ("worse", "neg"),
    ]  # fmt: skip
    paragraphs = read_corpus(tmp_path, "paragraphs", **by_name)
    assert sorted(zip(paragraphs.texts, paragraphs.labels, strict=True)) == [
        ("bad\nworse", "neg"), ("fine", "pos"), ("good\nvery\tgood", "pos"),
    ]  # fmt: skip
    assert paragraphs.ids == ["neg.txt:1", "pos.txt:1", "pos.txt:2"]
    [(_, problem)] = read_corpus(tmp_path, **by_name).problems
    assert "--format plain reads a text per line" in problem


def test_names_of_files_are_no_labels_of_tables(write, tmp_path):
    path = write("pos.csv", "text,label\nwin cash,spam\nlunch,ham\n")
    with pytest.raises(InputError, match=r"is for files of texts, and .* is read as csv; name a column"):
        read_corpus(path, label=r"name:(\w+)\.csv")
    assert read_corpus(path, recorded={"label": r"name:(\w+)\.txt"}).labels == ["spam", "ham"]
