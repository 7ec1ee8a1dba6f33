"""FASTA: records, labels of headers and of files; what is wrong is said by file and record."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from test_readers_stream import same

from textsvm import InputError
from textsvm.readers import files, sample, sequences
from textsvm.readers.files import File
from textsvm.readers.read import read_documents


@pytest.fixture
def fasta(tmp_path):
    def read(content, name="x.fa", **options):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return same(tmp_path / name, **options)

    return read


def textbook(content):
    """FASTA line by line: (header, letters, line)."""
    found = []
    for number, line in enumerate(content.replace("\r\n", "\n").split("\n"), 1):
        if line.startswith(">"):
            found.append([line[1:], "", number])
        elif not line.startswith(";") and line:
            found[-1][1] += line
    return [tuple(each) for each in found]


def test_records_of_several_lines_comments_and_windows_line_ends(fasta):
    corpus = fasta("; made by hand\r\n>a first one\r\nACGT\r\nacNN\r\n\r\n;between\r\n>b\r\nGG GG\tC\r\n")
    assert (corpus.format, corpus.ids, corpus.texts) == ("fasta", ["a", "b"], ["ACGTacNN", "GGGGC"])
    assert corpus.labels is None
    assert corpus.problems == []


def found_in_blocks(size, name, content):
    """Records (header, letters, line) of a file that is read in blocks of so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", size)
        records = list(sequences.records(File(name, content.encode()), []))
    return [(header, letters, line) for line, header, letters in records]


@given(
    st.lists(st.sampled_from([">a", ">b x=1", "ACGT", "", ";c", "N" * 30]), max_size=40), st.integers(1, 40)
)
def test_blocks_of_any_size_give_the_same_records(lines, size):
    content = ">first\n" + "\n".join(lines)
    assert found_in_blocks(size, "x.fa", content) == textbook(content)


def test_fastq_is_refused(fasta):
    for name in ("reads.fq", "reads"):
        with pytest.raises(InputError, match="is FASTQ, which is not read; convert it to FASTA"):
            fasta("@r1 label=x\nACGT\n+\n@III\n@r2 label=y\nAC\n+r2\n>>\n", name)


@pytest.mark.parametrize("pack", [gzip, bz2, lzma])
def test_packed_and_by_content_alone(fasta, pack):
    content = b">a label=x\nACGT\n>b label=y\nMKV*\n"
    for name in ("some.fasta.packed", "no_name_of_sequences"):
        corpus = fasta(pack.compress(content), name)
        assert (corpus.format, corpus.ids, corpus.labels) == ("fasta", ["a", "b"], ["x", "y"])
    # the first of these characters are those of a quotation in a mail, which is a text
    assert read_documents(sample("sites")).format == "fasta"


def test_what_only_looks_like_fasta_is_a_text(tmp_path):
    (tmp_path / "reply.txt").write_text("> are you coming?\nyes\n")
    assert read_documents(tmp_path / "reply.txt").format == "file"


@pytest.mark.parametrize(
    ("content", "ids", "labels"),
    [
        (">1\nAC\n>0\nGG\n>1\nTT\n", ["1", "2", "3"], ["1", "0", "1"]),  # FastSK
        (">-1\nAC\n>+1\nGG\n", ["1", "2"], ["-1", "+1"]),
        (">pos\nAC\n>neg\nGG\n>pos\nTT\n>neg\nTA\n", ["1", "2", "3", "4"], ["pos", "neg", "pos", "neg"]),
        (">p1 label=kinase x=2\nAC\n>p2 len=7 label=not one\nGG\n", ["p1", "p2"], ["kinase", "not one"]),
        (">P1|1|training\nAC\n>P2|0|testing\nGG\n", ["P1", "P2"], ["1", "0"]),  # iLearn
        (">sp|P02144|MYG_HUMAN Myoglobin\nMK\n>1 dna:x\nAC\n", ["sp|P02144|MYG_HUMAN", "1"], None),
        (">1\nAC\n>2\nAC\n>3\nAC\n", ["1", "2", "3"], None),  # they are numbered
        (">\nAC\n> \nGG\n", ["1", "2"], None),
    ],
)
def test_labels_of_headers(fasta, content, ids, labels):
    corpus = fasta(content)
    assert (corpus.ids, corpus.labels) == (ids, labels)


def test_parts_of_headers(fasta):
    assert fasta(">a split=train label=x\nAC\n>b split=test label=y\nAC\n").part == ["train", "test"]
    assert fasta(">P1|1|training\nAC\n>P2|0|testing\nGG\n").part == ["train", "test"]
    assert fasta(">a label=x\nAC\n>b split=test label=y\nAC\n", "train.fa").part == ["train", "test"]


def test_fields_and_words_of_headers(fasta):
    content = ">a 1 s=3.5 chr=chr1 w=2 f=x;y\nAC\n>b 0 s=-2 chr=chr2 w=1 f=y\nGG\n"
    assert fasta(content, label="2").labels == ["1", "0"]
    assert fasta(content, label="chr").labels == ["chr1", "chr2"]
    assert fasta(content, label="f", label_separator=";").labels == [("x", "y"), ("y",)]
    corpus = fasta(content, target="s", weight="w", group="chr")
    assert (corpus.targets, corpus.weights, corpus.groups) == ([3.5, -2.0], [2.0, 1.0], ["chr1", "chr2"])


def test_one_file_a_class(tmp_path):
    for name, content in {
        "pos.fa": ">a\nAC\n>b\nGG\n",
        "neg.fasta.gz": ">c\nTT\n",
        "README.md": "notes",
    }.items():
        data = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    corpus = same(tmp_path)
    assert (corpus.ids, corpus.labels) == (["c", "a", "b"], ["neg", "pos", "pos"])
    with tarfile.open(tmp_path / "t.tar", "w") as archive:
        for name in ("pos.fa", "neg.fasta.gz"):
            archive.add(tmp_path / name, f"set/{name}")
    assert same(tmp_path / "t.tar").problems == [("set/neg.fasta.gz", "left out: it is binary")]
    two = same([tmp_path / "pos.fa", tmp_path / "neg.fasta.gz"])
    assert (two.ids, two.labels) == (["a", "b", "c"], ["pos", "pos", "neg"])
    assert two.source == f"{tmp_path / 'pos.fa'}, {tmp_path / 'neg.fasta.gz'}"


@pytest.mark.parametrize(
    ("names", "labels", "parts"),
    [
        (["test/neg.fa", "train/pos.fa"], ["neg", "pos"], ["test", "train"]),
        (["neg/test.fa", "pos/train.fa"], ["neg", "pos"], ["test", "train"]),
        (["neg.test.fa", "pos_train.fa"], ["neg", "pos"], ["test", "train"]),
        (["test.fa", "train.fa"], None, ["test", "train"]),
    ],
)
def test_classes_and_parts_of_names(tmp_path, names, labels, parts):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f">{name}\nACGT\n")
    corpus = same(tmp_path)
    assert (corpus.labels, corpus.part) == (labels, parts)


def test_headers_say_more_than_names(tmp_path):
    for part in ("test", "train"):
        (tmp_path / f"CTCF.{part}.fasta").write_text(">1\nAC\n>0\nGG\n")
    corpus = same(tmp_path)
    assert (corpus.labels, corpus.ids[0]) == (["1", "0", "1", "0"], "CTCF.test.fasta:1")
    assert corpus.part == ["test", "test", "train", "train"]


def test_several_paths_are_as_one_folder(tmp_path):
    for label in ("ham", "spam"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "1.txt").write_text(f"{label} text")
    assert same([tmp_path / "ham", tmp_path / "spam"]).labels == ["ham", "spam"]
    (tmp_path / "a.csv").write_text("label,text\nx,one\n")
    (tmp_path / "b.csv").write_text("label,text\ny,two\n")
    assert same([tmp_path / "a.csv", tmp_path / "b.csv"]).texts == ["one", "two"]


def test_records_of_no_and_of_one_letter_are_named(fasta):
    corpus = fasta(">a label=x\nAC\n>b label=y\n\n>c label=z\nG\n")
    assert (corpus.ids, corpus.texts) == (["a", "c"], ["AC", "G"])
    assert corpus.problems == [
        ("x.fa, record 2 (line 3)", "left out: 'b label=y' has no sequence"),
        ("x.fa, record 3 (line 5)", "of one letter: 'c label=z' is 'G'"),
    ]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("\nACGT\n>a\nAC\n", "x.fa", "x.fa, line 2: 'ACGT' stands before the first > of FASTA"),
        (">a\nAC\n>b\nAC\nA7C\n", "x.fa", r"x.fa, record 2 \(line 3\) has '7', which is no letter"),
        (">a\nAC\n>b\nA\N{GREEK SMALL LETTER ALPHA}\n", "x.fa", r"record 2 \(line 3\) has 'α'"),
        (">only\n", "x.fa", r"no document .* as fasta: x.fa, record 1 \(line 1\) left out"),
        ("\n\n", "x.fa", "holds no document that can be read as fasta"),
        (b"\0\1\2>a\n", "x.fa", "binary"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_record(fasta, content, name, message):
    refuses(message, fasta, content, name, format="fasta")


def test_numbers_and_groups_that_are_not_there(fasta):
    content = ">a s=1 w=-1\nAC\n>b s=much\nAC\n"
    refuses(r"x.fa, record 2: 's' is 'much', which is not a finite number", fasta, content, target="s")
    refuses(r"x.fa, record 1: the weight is -1", fasta, content, weight="w")
    refuses(r"x.fa, record 1 has no 'chr' in its header", fasta, content, group="chr")
    refuses("read as fasta, which has no column 'body'", fasta, content, text=["body"])


def test_other_charsets(fasta):
    content = ">a Bär\nACGT\n>b é\nGG\n"
    for encoding in ("utf-8-sig", "utf-16"):
        assert fasta(content.encode(encoding), format="fasta").texts == ["ACGT", "GG"]
    (_, problem), *rest = fasta(content.encode("latin-1")).problems
    assert "Windows-1252" in problem
    assert rest == []
