"""Reuters-21578: the published counts, every form of text, and damage."""

import html
import re
import tarfile
from collections import Counter

import pytest
from refusals import refuses

from textsvm.readers import sample
from textsvm.readers.corpus import ReadOptions
from textsvm.readers.files import File
from textsvm.readers.read import read_corpus
from textsvm.readers.reuters import read_reuters

HEAD = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'


def parse(sgml, **options):
    """Documents of one file, and what was wrong."""
    problems = []
    return list(
        read_reuters([File("x.sgm", sgml.encode("latin-1"))], problems, ReadOptions(**options), None)
    ), problems


def document(text, topics="<D>earn</D>", attributes='TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="7"'):
    return f"{HEAD}<REUTERS {attributes}>\n<TOPICS>{topics}</TOPICS>\n<TEXT{text}</TEXT>\n</REUTERS>\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            ">&#2;\n<TITLE>A &lt;B.O> RISES</TITLE>\n<DATELINE>  CITY, May 1 - </DATELINE>"
            "<BODY>One &amp; two\n    three.\n Reuter\n&#3;</BODY>",
            "A <B.O> RISES\nOne & two\n    three.\n Reuter",
        ),
        (
            "><TITLE>T</TITLE><BODY>a&#128;b&#150;c&#1114112;d&#9999999;e &#233;\x85&#65533;</BODY>",
            "T\nabcde \xe9\ufffd",
        ),
        (' TYPE="BRIEF">&#2;\n******<TITLE>ONLY A TITLE\n</TITLE>Blah blah blah.\n&#3;\n\n', "ONLY A TITLE"),
        (
            ' TYPE="UNPROC">&#2;\nNO TITLE HERE\n    Text.\n Reuter\n&#3;\n\n',
            "NO TITLE HERE\n    Text.\n Reuter",
        ),
        (">\n<TITLE>T</TITLE>\n<AUTHOR>By X</AUTHOR><DATELINE>D</DATELINE><BODY>B</BODY>", "T\nB"),
        (">\n<TITLE>T</TITLE><AUTHOR>By X</AUTHOR>\nrest of it", "T\nrest of it"),
        (">", ""),
    ],
)
def test_texts_of_every_type(text, expected):
    (found,), problems = parse(document(text))
    assert found.text == expected
    assert found.id == "7"
    assert problems == []


def test_latin_1_entities_and_topics():
    (found,), _ = parse(
        document(">\n<TITLE>M\xfcnchen &#252; &quot;x&quot; &amp;lt; AT&T &#3;&#31;&#9999999;</TITLE>")
    )
    assert found.text == 'M\xfcnchen \xfc "x" &lt; AT&T'
    for topics, label in (("<D>earn</D><D>acq</D><D>earn</D>", ("earn", "acq")), ("", ())):
        assert parse(document(">x", topics))[0][0].label == label


@pytest.mark.parametrize(
    ("topics", "lewis", "modapte_part", "lewis_part"),
    [
        ("YES", "TRAIN", "train", "train"),
        ("YES", "TEST", "test", "test"),
        ("NO", "TRAIN", None, "train"),
        ("BYPASS", "TEST", None, None),
        ("YES", "NOT-USED", None, None),
    ],
)
def test_splits(topics, lewis, modapte_part, lewis_part):
    sgml = document(">x", attributes=f'TOPICS="{topics}" LEWISSPLIT="{lewis}" NEWID="1"')
    assert parse(sgml)[0][0].part == modapte_part
    assert parse(sgml, split="lewis")[0][0].part == lewis_part
    refuses("split='random'", parse, sgml, split="random")


def test_damage_is_named_and_survived():
    whole = document(">\n<TITLE>T</TITLE><BODY>B</BODY>")
    (first, second), problems = parse(whole + whole.replace("</REUTERS>", "").replace('NEWID="7"', ""))
    assert first.text == "T\nB"
    assert second.text == "T\nB"
    assert problems == [("x.sgm:2", "the document is cut off: </REUTERS> is missing")]
    (found,), problems = parse(whole[: whole.index("B</BODY>") + 1])
    assert found.text == "T\nB"
    assert len(problems) == 1
    (found,), problems = parse(HEAD + '<REUTERS NEWID="3"></REUTERS>')
    assert problems == [("3", "it has no <TEXT>")]
    assert parse(HEAD) == ([], [("x.sgm", "left out: it holds no <REUTERS> document")])


def test_files_that_are_none_are_named():
    problems = []
    files = [
        File("d/README.txt", b"x"),
        File("d/lewis.dtd", b"x"),
        File("d/notes.txt", b"x"),
        File("d/x.sgm", b""),
    ]
    assert list(read_reuters(files, problems, ReadOptions(), None)) == []
    assert [name for name, _ in problems] == ["d/notes.txt", "d/x.sgm"]


def test_sample_newswire():
    corpus = read_corpus(sample("newswire"))
    assert corpus.format == "reuters"
    assert len(corpus) == 600
    assert corpus.problems == []
    assert {label for labels in corpus.labels for label in labels} == {
        "earn", "acq", "crude", "grain", "money-fx", "trade",
    }  # fmt: skip
    assert any(len(labels) == 2 for labels in corpus.labels)
    assert set(corpus.part) == {"train", "test", None}
    assert not any("Blah blah" in text or "&lt;" in text or "\x03" in text for text in corpus.texts)
    one = read_corpus(sample("newswire") / "reut2-001.sgm", part="train")
    assert len(one) == sum(part == "train" for part in corpus.part[200:400])


@pytest.fixture(scope="module")
def reuters(data):
    return read_corpus(data / "reuters21578" / "reuters21578.tar.gz")


def test_published_counts(reuters, data):
    assert len(reuters) == 21_578
    assert reuters.ids == [str(i) for i in range(1, 21_579)]
    assert Counter(reuters.part) == {"train": 9_603, "test": 3_299, None: 8_676}
    assert reuters.problems == []
    topics = Counter(label for labels in reuters.labels for label in labels)
    assert (topics["earn"], topics["acq"]) == (3_987, 2_448)
    for negative, train, test in (("acq", 4_495, 1_800), ("rest", 7_775, 3_019)):
        reduced = reuters.reduce_labels("earn", negative)
        assert len(reduced.select("train")) == train
        assert len(reduced.select("test")) == test
    lewis = read_corpus(data / "reuters21578", split="lewis")
    assert Counter(lewis.part) == {"train": 13_625, "test": 6_188, None: 1_765}


def test_texts_of_the_real_corpus(reuters, data):
    """Against a plain reading of the same bytes: title, and body where there is one."""
    expected = {}
    with tarfile.open(data / "reuters21578" / "reuters21578.tar.gz") as archive:
        for member in archive:
            if not member.name.endswith(".sgm"):
                continue
            sgml = archive.extractfile(member).read().decode("latin-1")
            for number, text in re.findall(r'NEWID="(\d+)">(.*?)</REUTERS>', sgml, re.DOTALL):
                title = re.search(r"<TITLE>(.*?)</TITLE>", text, re.DOTALL)
                body = re.search(r"<BODY>(.*?)</BODY>", text, re.DOTALL)
                if title and body:
                    expected[number] = html.unescape(f"{title[1]} {body[1]}").split()
    got = {number: text.split() for number, text in zip(reuters.ids, reuters.texts, strict=True)}
    assert len(expected) == 19_043
    assert all(got[number] == words for number, words in expected.items())
    assert sum(not text.strip() for text in reuters.texts) <= 1
