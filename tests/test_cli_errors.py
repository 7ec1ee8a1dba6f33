"""Ordinary mistakes of a user, each with the sentence and the exit code that he deserves.

No case may exit with 0 and a wrong result. A case is a command line in a folder that holds the corpora and
models of `folder`, the files it adds, the exit code, and a pattern of the sentence on stderr.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import shlex
import tarfile
import zipfile
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow
import pytest
from command import ROOT, run, works
from encoders import tokenizer, vocabulary
from pyarrow import ipc, parquet
from refusals import refuses
from safetensors.numpy import save
from sklearn.model_selection import cross_val_score
from typer.main import get_command

from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    GapWeighted,
    MultilabelSVC,
    OneClassSVM,
    OnlineSVC,
    Spectrum,
    SpectrumFeatures,
    cross_validate,
    doubts,
    read_corpus,
    tune,
)
from textsvm.cli import app_of
from textsvm.errors import InputError
from textsvm.readers.read import read_documents

SAMPLES = ROOT / "corpora" / "samples"
OUTLOOK = {"msg/a.msg": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)}
WORDS = {
    "good": ["fine", "great", "lovely", "superb", "happy", "quick", "friendly", "warm", "best", "perfect"],
    "bad": ["poor", "awful", "broken", "late", "rude", "slow", "cold", "worst", "dirty", "refund"],
}


def texts(n, seed=0):
    """(label, text) of n short reviews."""
    rng = random.Random(seed)
    labels = [("good", "bad")[i % 2] for i in range(n)]
    return [
        (label, " ".join(["the", *rng.choices(WORDS[label], k=5), f"n{i}"])) for i, label in enumerate(labels)
    ]


def table(rows, header=None, delimiter=","):
    """A CSV file as bytes."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerows([*([header] if header else []), *rows])
    return buffer.getvalue().encode()


def lines(rows):
    """Label TAB text."""
    return "".join(f"{label}\t{text}\n" for label, text in rows).encode()


def zipped(**members):
    """A ZIP archive; in names, __ stands for a slash and _DOT_ for a dot."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_DOT_", "."), content)
    return buffer.getvalue()


def array(values):
    """An array in NumPy's format."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


ROWS = texts(40)
STARS = [(f"{i / 7:.3f}", text) for i, (_, text) in enumerate(ROWS)]
DNA = {"a": "ACGTACGTTGCA", "b": "GGGCCCATTTAA"}


def fasta(n=20, seed=0):
    """Sequences of two classes."""
    rng = random.Random(seed)
    records = []
    for i in range(n):
        label = "ab"[i % 2]
        sequence = "".join(rng.choices(DNA[label], k=60))
        records.append(f">s{i} label={label}\n{sequence}\n")
    return "".join(records).encode()


FILES = {
    "reviews.csv": table(ROWS, ("label", "text")),
    "said.csv": table(
        [(i, text, label) for i, (label, text) in enumerate(ROWS)], ("id", "utterance", "mood")
    ),
    "reviews.jsonl": b"".join(json.dumps({"label": a, "text": b}).encode() + b"\n" for a, b in ROWS),
    "reviews.txt": lines(ROWS),
    "few.csv": table(ROWS[:2], ("label", "text")),
    "stars.csv": table(STARS, ("stars", "text")),
    "dna.fa": fasta(),
    "wide.npy": array(np.arange(120.0).reshape(40, 3) % 7),
    "classes.txt": b"0\n1\n" * 20,
    "two.npy": array(np.ones((4, 2))),
    "two.libsvm": b"".join(b"%d 1:%d 2:%d\n" % (i % 2, 1 + i % 2 * 5, i % 7) for i in range(40)),
    "topics.csv": table([(f"{a};{b.split()[1]}", b) for a, b in ROWS], ("label", "text")),
    "empty.csv": b"",
    "blank.csv": b"\n\n\n",
}
MODELS = {
    "m": "train reviews.csv --kernel spectrum:1-3",
    "said": "train said.csv --text utterance --label mood --kernel spectrum:1-3",
    "lines": "train reviews.txt --kernel spectrum:1-3",
    "stars": "train stars.csv --regress stars --kernel spectrum:1-3",
    "sure": "train reviews.csv --kernel spectrum:1-3 --calibrate sigmoid",
    "few": "train few.csv --kernel spectrum:1-3",
    "dna": "train dna.fa --kernel gkm:l=6,k=4,canonical",
    "topics": "train topics.csv --multilabel --kernel spectrum:1-3",
    "vectors": "train two.libsvm",
    "wide": "train wide.npy --labels classes.txt",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the corpora and models that the cases share."""
    place = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    for name, command in MODELS.items():
        works(*shlex.split(command), "-o", f"{name}.textsvm", "--quiet", cwd=place)
    return place


@dataclass(frozen=True)
class Mistake:
    """A command, what it must say, and its exit code; `rows` is the output that is right beside a failure."""

    command: str
    says: str
    files: dict | bytes = b""  #: Beside those of `FILES`, by name; the content of the only one of the command
    code: int = 1  #: 0: a note on stderr beside the right output
    stdin: bytes = b""
    rows: int = 0
    prints: str = ""  #: Pattern of stdout

    @property
    def words(self):
        """The command; a training or cross-validation has a kernel, unless it is named."""
        words = shlex.split(self.command)
        if words[0] == "train" and "-o" not in words:
            words += ["-o", "new.textsvm", *["--kernel", "spectrum:1-3"] * ("--kernel" not in words)]
        if words[0] == "cv" and not {"--kernel", "--folds"} & {*words}:
            words += ["--kernel", "spectrum:1-3", "--folds", "3"]
        return words

    @property
    def contents(self):
        """Contents of files by their names."""
        if isinstance(self.files, dict):
            return self.files
        shared = {*FILES, *(f"{model}.textsvm" for model in [*MODELS, "new"])}
        own = [word for word in self.words if re.search(r"\.\w+$", word) and word not in shared]
        return {own[0]: self.files} if self.files and own else {}


def Note(command, says, files=b"", rows=1, **more):
    """A command that works and says something."""
    return Mistake(command, says, files, 0, rows=rows, **more)


def left_out(title, name, content, other="n.md", text=b"A note\n", model="said"):
    """A table in the folder t beside another file, which is left out."""
    files = {name: content, f"t/{other}": text}
    return Note(f"predict {model}.textsvm t", f"{re.escape(other)}: left out", files, rows=40)


def repeated(times=4, changed=str):
    """Texts with random labels, several times, `changed` the second time and later."""
    rng = random.Random(5)
    rows = [
        ("".join(rng.choices("xy", k=1)), f"{text} {i} {text}") for i, (_, text) in enumerate(texts(60, 1))
    ]
    return table([(a, changed(b) if k else b) for k in range(times) for a, b in rows], ("label", "text"))


#: Changes of a text that keep it a copy.
CHANGES = {
    "equal": str,
    "in capitals": str.upper,
    "with other spaces": lambda text: f"  {text.replace(' ', '   ')}\t",
    "with punctuation": lambda text: f"\u00ab{text.replace(' ', ', ')}!\u00bb",
    "with another number": lambda text: re.sub(r"\d+", "7", text),
}
ESTIMATES = {
    "train": "train t.csv --kernel spectrum:2 -o m --json",
    "train --holdout": "train t.csv --kernel spectrum:2 -o m --holdout 0.3 --json",
    "cv": "cv t.csv --kernel spectrum:2 --json",
    "tune": "tune t.csv --kernel spectrum:2 -C 1 --json",
    "compare --cv": "compare t.csv --kernel spectrum:2 --cv 3 --json",
}
#: Files of a user that a command must not replace without --force.
PRECIOUS = b'{"id": 1, "label": "good", "text": "a fine day"}\n'


def jsonl(rows):
    """Objects or arrays, a line each."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def arrow(new):
    """The reviews in a file or stream of Arrow."""
    sink, columns = io.BytesIO(), pyarrow.table({"label": [a for a, _ in ROWS], "text": [b for _, b in ROWS]})
    with new(sink, columns.schema) as writer:
        writer.write_table(columns)
    return sink.getvalue()


def class_labels(values, feature):
    """Texts in Parquet with the names of classes in the metadata of Hugging Face."""
    columns = pyarrow.table({"text": [b for _, b in ROWS], "label": values})
    metadata = {"huggingface": json.dumps({"info": {"features": {"label": feature}}})}
    sink = io.BytesIO()
    parquet.write_table(columns.replace_schema_metadata(metadata), sink)
    return sink.getvalue()


def annotated(*answers, **about):
    """Tasks of Label Studio with the answers of annotators to each review."""
    return json.dumps([
        {
            "id": i, "data": {"text": text}, **about,
            "annotations": [
                {"completed_by": k, "result": [{"from_name": "s", "value": {"choices": [answer or label]}}]}
                for k, answer in enumerate(answers)
            ],
        }
        for i, (label, text) in enumerate(ROWS)
    ]).encode()  # fmt: skip


FAST = "--kernel fast"


def tree(place, *paths, n=6):
    """Files of six words in the folders of a path, beginning with the words of one class for each path."""
    return {
        f"{place}/{path}/{i}.txt": f"{path} {' '.join(random.Random(i).choices(WORDS['good'], k=5))}".encode()
        for path in paths
        for i in range(n)
    }


def labelled(*labels, end="\n"):
    """A table whose rows have the labels in turn."""
    rows = [(labels[i % len(labels)], text) for i, (_, text) in enumerate(ROWS)]
    return table(rows, ("label", "text")).replace(b"\n", end.encode())


def json_lines(*rows):
    """JSON Lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


TABS = table(ROWS, ("label", "text"), "\t")
XLSX = zipped(
    **{
        "[Content_Types]_DOT_xml": "<Types/>",
        "_rels___DOT_rels": "<Relationships/>",
        "xl__workbook_DOT_xml": "<workbook/>",
        "docProps__app_DOT_xml": "<Properties/>",
    }
)
MODEL = {"t/m2.textsvm": b"\x10\0\0\0\0\0\0\0{}", "t/p.png": b"\x89PNG\r\n\x1a\n" + bytes(500)}
MERGED = FILES["reviews.csv"].split(b"\n")  # a quote opens in line 11; an undoubled quote in line 21
MERGED = b"\n".join(
    [*MERGED[:10], MERGED[10].replace(b",", b',"'), *MERGED[11:20], b'bad,x "y" z', *MERGED[21:]]
)
DOCX = zipped(**{"[Content_Types]_DOT_xml": "<Types/>", "word__document_DOT_xml": "<w/>"})
ODT = zipped(mimetype="application/vnd.oasis.opendocument.text", content_DOT_xml="<x/>")
RAGGED = b"label,text\n" + b"".join(
    f"{label},{text}{', and a comma' if i % 5 == 0 else ''}\n".encode()
    for i, (label, text) in enumerate(ROWS)
)
COLUMNS = ("label", "text")
HOLES = table([(a, ("", "  ")[i] if i < 2 else b) for i, (a, b) in enumerate(ROWS)], COLUMNS)
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
FOLDER = {f"t/{a}/{i}.txt": b.encode() for i, (a, b) in enumerate(ROWS[:4])}
GOOD_BAD = {"names": ["good", "bad"], "_type": "ClassLabel"}
ZERO = b"".join(b"%d 0:%d 2:%d\n" % (i % 2, 1 + i % 2 * 5, i % 7) for i in range(40))
CYRILLIC = (
    table([("дн"[i % 2] + "ае"[i % 2], f"текст {i}") for i in range(40)], COLUMNS).decode().encode("cp1251")
)
ENCODER = {
    "e/model.safetensors": save({"embeddings": np.ones((200, 4), np.float32)}),
    "e/tokenizer.json": tokenizer(vocabulary()).encode(),
}
TAR = io.BytesIO()
with tarfile.open(fileobj=TAR, mode="w:gz"):
    pass

#: Files whose second label is to be filled in, by suffix.
ODD_LABELS = {
    "jsonl": b'{"text": "fine", "label": "good"}\n{"text": "poor", "label": %b}\n',
    "json": b'[{"text": "fine", "label": "good"}, {"text": "poor", "label": %b}]',
}

UNEVEN = tree("n", "Goethe/Faust", "Goethe/Werther", "Schiller/Faust")

#: Commands that fail, a pattern of their sentence, and content of a file: see `in_lines`.
FAILS = r"""
train reviews.csv --text text --text text  =>  --text text,text names a column twice
cv reviews.csv --numbers label,1  =>  --numbers label,label names a column twice
train none.csv  =>  none\.csv is not there
predict none.textsvm reviews.csv  =>  none\.textsvm is not there
predict reviews.csv m.textsvm  =>  reviews\.csv.*not a (textsvm )?model
evaluate reviews.csv reviews.csv  =>  reviews\.csv.*not a (textsvm )?model
train m.textsvm  =>  m\.textsvm.*(model|binary)
train empty.csv  =>  empty\.csv is empty
train blank.csv  =>  blank\.csv is empty
predict m.textsvm empty.csv  =>  empty\.csv is empty
predict m.textsvm -  =>  standard input is empty
explain m.textsvm --text 'hello you'  =>  'hello you' is read as
train -  =>  standard input
explain vectors.textsvm --top 3  =>  vectors has no texts
train reviews.csv --text text --table header=no  =>  no column 'text'
train reviews.csv --annotators bo  =>  names no annotators
train reviews.csv --encoding cp125  =>  no charset 'cp125'; usual ones are
train reviews.csv --sheet 2  =>  has no sheets; leave out --sheet
train reviews.csv --text body  =>  no column 'body'.*label, text
train reviews.csv --label stars  =>  no column 'stars'.*label, text
train reviews.csv --id nr  =>  no column 'nr'
train reviews.csv --text Text  =>  no column 'Text'.*text
train reviews.csv --text 7  =>  no column '7'
train said.csv  =>  said\.csv.*(--text|--label).*utterance
train said.csv --text utterance  =>  --label.*mood|no labels.*--label
predict m.textsvm said.csv  =>  said\.csv.*text.*utterance
predict said.textsvm reviews.csv  =>  reviews\.csv.*'utterance'.*label, text
evaluate said.textsvm reviews.csv  =>  reviews\.csv.*'(utterance|mood)'
explain said.textsvm reviews.csv  =>  reviews\.csv.*'utterance'
predict said.textsvm reviews.jsonl  =>  reviews\.jsonl.*'utterance'
train reviews.txt --text text  =>  reviews\.txt.*column
train said.csv --text utterance  =>  its columns are: id, utterance, mood
train reviews.csv --numbers text  =>  'text'.*number
train reviews.csv --regress text  =>  line 2: the target.*not a finite number
train reviews.csv --regress label  =>  'good'.*not a finite number
train reviews.csv --text text --label text  =>  'text' is named twice: --text and --label
train stars.csv --label stars  =>  --regress
cv stars.csv --label stars --kernel spectrum:2  =>  --regress
train reviews.csv --text label --label text  =>  swapped.*--text text --label label
train said.csv --text utterance --label id  =>  labels.*once|--regress
train reviews.csv --positive god  =>  no label 'god'.*good
train reviews.csv --positive good --negative worse  =>  no label 'worse'
train reviews.csv --positive good --negative good  =>  both 'good'
evaluate stars.textsvm reviews.csv  =>  '?stars'?
evaluate m.textsvm stars.csv --label stars  =>  (label|class)
cv said.csv --text utterance,body  =>  no column 'body'
export m.textsvm -o out.bin --title x  =>  a title is for pages
train reviews.csv --part test  =>  no part 'test'
evaluate m.textsvm reviews.csv --part test  =>  no part 'test'
predict vectors.textsvm reviews.csv  =>  holds texts, and the model compares vectors
predict m.textsvm two.libsvm  =>  (text|vector)
predict dna.textsvm reviews.csv  =>  (letter|sequence|DNA)
predict few.textsvm reviews.csv --proba  =>  few.textsvm gives no probabilities.*--calibrate
predict m.textsvm reviews.csv --coverage 0.9  =>  --calibrate
predict stars.textsvm stars.csv --proba  =>  not a classifier
cv reviews.csv --kernel fast --folds 41  =>  --folds 41.*only 40 documents
train reviews.csv --format xml  =>  xml
train reviews.csv --format libsvm  =>  reviews\.csv.*line 1
train reviews.csv --format fasta  =>  reviews\.csv
train two.libsvm  =>  (vector|text)
train reviews.csv --kernel gaussian -o new.textsvm  =>  (vector|text|number)
map reviews.csv --kernel spectrum:2,odds -o m.svg  =>  odds
predict wide.textsvm two.npy  =>  columns|features|numbers
predict m.textsvm p.pdf  =>  p\.pdf.*(PDF|binary)  =>  %PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n
predict cut.textsvm reviews.csv  =>  cut\.textsvm.*(damaged|not a)  =>  \x10\x00\x00\x00\x00\x00\x00\x00{
train n --level 3  =>  --level 3: .* levels 1 to 2  =>  $UNEVEN
update m.textsvm n  =>  --level 1 \(Goethe, Schiller\)  =>  $UNEVEN
predict m.textsvm t.csv --text 2  =>  first line a header  =>  nr,remark\n2,awful day\n3,warm\n
predict m.textsvm --format csv --text 1  =>  first line a header  =>  a fine day\nan awful day\n
train t.xlsx  =>  t\.xlsx.*(spreadsheet|Excel)  =>  $XLSX
train t.docx  =>  t\.docx.*Word  =>  $DOCX
predict m.textsvm t.docx  =>  t\.docx.*Word  =>  $DOCX
train t.zip  =>  t\.zip.*Word  =>  $DOCX
train t.odt  =>  t\.odt.*LibreOffice  =>  $ODT
train t.doc  =>  t\.doc.*binary  =>  $OLE
train t.json  =>  must hold an array of objects  =>  7
train t.lz4  =>  is a LZ4 archive, which is not read  =>  \x04"M\x18xxxx
predict vectors.textsvm t.svm  =>  the index is 0, and indices count from 1  =>  $ZERO
train t.csv --encoding utf-8  =>  t\.csv is not in the charset utf-8  =>  $CYRILLIC
train reviews.csv t.txt --text text --label label  =>  t\.txt is no table  =>  Some text\n
train msg -o m  =>  a\.msg.*Outlook.*\.eml.*msgconvert  =>  $OUTLOOK
label t.csv --text a --text nothing -o l.jsonl --labels x,y  =>  no column 'nothing'  =>  a,b\nc,d\n
train t.txt  =>  t\.txt.*without labels  =>  Just some text.\nAnd more of it.\n
train t.csv  =>  2 of the 40 rows of t\.csv have no text \(lines 2, 3\).*--skip-invalid  =>  $HOLES
evaluate m.textsvm t.csv  =>  2 of the 40 rows.*--skip-invalid  =>  $HOLES
train t.csv  =>  8 of (the )?40 rows.*lines 2, 7.*needs quotes.*--table  =>  $RAGGED
cv t.csv --kernel spectrum:2  =>  8 of (the )?40 rows.*needs quotes.*--table  =>  $RAGGED
predict m.textsvm t.csv  =>  8 of the 40 rows.*lines 2, 7.*semicolons  =>  $RAGGED  =>  40
predict m.textsvm t.csv  =>  line 3.*empty  =>  id,text\n1,fine\n2,\n3,poor\n  =>  3
predict m.textsvm t.jsonl  =>  line 2.*text  =>  {"text": "fine"}\n{"text": null}\n{"text": "poor"}\n  =>  3
predict m.textsvm t.jsonl  =>  line 2  =>  {"text": "fine"}\n{"id": 7}\n{"text": "poor"}\n  =>  3
predict lines.textsvm t.txt --format lines  =>  line 2.*empty  =>  fine\n\npoor\n  =>  3
predict m.textsvm reviews.csv none.csv  =>  none\.csv  =>    =>  40
predict m.textsvm reviews.csv said.csv  =>  said\.csv.*utterance  =>    =>  40
train two.libsvm --labels t.txt  =>  t\.txt.*labels  =>  a\nb\n
map t.csv -o m.html  =>  two or more  =>  text,label\nhi,a\n
predict f.textsvm reviews.csv  =>  f\.textsvm  =>  \x02\x00\x00\x00\x00\x00\x00\x00{}
evaluate m.textsvm reviews.csv --beside stars.textsvm  =>  predicts numbers, and .*labels
evaluate stars.textsvm stars.csv --beside m.textsvm  =>  predicts labels, and .*numbers
evaluate m.textsvm reviews.csv --beside topics.textsvm  =>  predicts several labels, and .*labels
evaluate topics.textsvm topics.csv --beside sure.textsvm  =>  predicts labels, and .*several labels
evaluate topics.textsvm topics.csv --beside stars.textsvm  =>  predicts numbers, and .*several
evaluate stars.textsvm stars.csv --beside topics.textsvm  =>  predicts several labels, and .*num
predict m.textsvm t.csv --text 1  =>  first line a header.*header=no  =>  a fine day\nan awful day\n
predict m.textsvm t.csv --text 1  =>  first line a header.*header=no  =>  "fine, great"\n"awful, late"\n
predict m.textsvm t.csv --text 2  =>  first line a header.*header=no  =>  Anna,a fine day\nCarl,warm\n
predict m.textsvm t.csv --text 1  =>  first line a header.*header=no  =>  a fine day;x\nan awful day;y\n
predict m.textsvm t.csv --text 1  =>  first line a header.*header=yes or header=no  =>  a fine day\n
predict m.textsvm l.txt  =>  l\.txt begins like a mail.*--format file  =>  Date: 12. Mai 1801\nDear\n
predict m.textsvm l.txt  =>  l\.txt begins like a mail.*--format file  =>  From: Weimar\nDear\n
predict m.textsvm l.txt  =>  l\.txt begins like a mail.*--format file  =>  To: my friend\nDear\n
predict m.textsvm l.txt  =>  l\.txt begins like a mail.*--format file  =>  Subject: algebra\nDear\n
predict m.textsvm l.txt  =>  l\.txt begins like a mail.*--format file  =>  Sender: he\nDate: Tuesday\nDear\n
train t.csv  =>  t\.csv, line 11: a quote.*runs up to line 21 .*correct the quotes  =>  $MERGED
evaluate m.textsvm t.csv  =>  t\.csv, line 11: a quote.*runs up to line 21 .*correct the quotes  =>  $MERGED
train t.conll  =>  a tag for each token  =>  EU NNP B-ORG\nsays VBZ O\n\nBo NNP B-PER\nsays VBZ O\n\n
train t.tsv  =>  a tag for each token  =>  EU\tB-ORG\nsays\tO\n\nBo\tB-PER\nsays\tO\n\n
train t.txt  =>  a tag for each token  =>  the\tDT\ncat\tNN\n\na\tDT\ndog\tNN\n\n
train t.csv  =>  has several columns '(?i:text|label)'  =>  text,label,text\na,b,c\nd,e,f\n
train t.csv  =>  has several columns '(?i:text|label)'  =>  text,Text,label\na,b,c\nd,e,f\n
train t.csv  =>  has several columns '(?i:text|label)'  =>  text,label,label\na,b,c\nd,e,f\n
cv t.csv  =>  has several columns '(?i:text|label)'  =>  text,Label,label\na,b,c\nd,e,f\n
corpus t.csv  =>  has several columns '(?i:text|label)'  =>  text,label,text\na,b,c\nd,e,f\n
corpus -  =>  standard input is empty
train t.csv --kernel spectrum:4  =>  shorter than p = 4  =>  text,label\na,x\nb,y\n
train t.csv  =>  needs two classes  =>  text,label\naaaaa,x\nbbbbb,x\n
train t.csv --regress y  =>  all 2 targets are 1  =>  text,y\naaaaa,1\nbbbbb,1\n
train t.csv --regress y  =>  line 3: the target is 'good'  =>  text,y\naaaaa,1\nbbbbb,good\n
train t.csv --regress z  =>  no column 'z' for the target  =>  text,y\naaaaa,1\nbbbbb,2\n
train t.csv --weights w  =>  line 3: the weight is 'nan'  =>  text,label,w\naaaaa,x,1\nbbbbb,y,nan\n
train t.csv --weights w  =>  the weight is -2, and none  =>  text,label,w\naaaaa,x,1\nbbbbb,y,-2\n
train t.csv --weights w  =>  zero for all  =>  text,label,w\naaaaa,x,0\nbbbbb,y,0\n
train t.csv --weights w  =>  nothing to learn the class y from  =>  text,label,w\naaaaa,x,1\nbbbbb,y,0\n
cv t.csv --folds 2  =>  class y has 1 document and there are 2  =>  text,label\naaa,x\naab,x\nbbb,y\n
tune t.csv --folds 2  =>  class y has 1 document and there are 2  =>  text,label\naaa,x\naab,x\nbbb,y\n
cv t.csv --groups g --folds 2  =>  in one group only  =>  text,label,g\na,x,1\nb,y,2\nc,x,1\nd,y,2\n
tune t.csv --groups g --folds 2  =>  has no g  =>  text,label,g\na,x,1\nb,y,\nc,x,1\nd,y,2\n
cv t.csv --regress y --folds 2  =>  all 3 targets are 3  =>  text,y\naaaaa,3\nbbb,3\nccc,3\n
tune t.csv --weights w  =>  the weight is 'inf'  =>  text,label,w\naaaaa,x,1\nbbbbb,y,inf\n
train n  =>  --level 1 \(a, b\) or --level 2 \(1801, 1802\)  =>  $tree('n', 'a/1801', 'a/1802', 'b/1801')
train n.zip  =>  --level 2 \(a, b\) or --level 3 \(x, y\)
    =>  $zipped(**{f'n__{path}__{i}_DOT_txt': path for path in ('a__x', 'a__y', 'b__x') for i in range(4)})
train n  =>  --level 1 \(home, work\) or --level 2 \(2019, 2020\)
    =>  ${f'n/{path}/{i}': b'From: a@b.c\nTo: d@e.f\nSubject: %d\n\ntext\n' % i for path in ('work/2019',
    'work/2020', 'home/2019') for i in range(3)}
cv n --groups folder  =>  --groups folder: a/0\.txt is not in a folder below  =>  $tree('n', 'a', 'b')
train t.csv --text 1 --label 2  =>  first line a header.*'0', '1'
    =>  $table([(b, i % 2) for i, (_, b) in enumerate(ROWS)], ('0', '1'))
train n  =>  begins like a mail
    =>  ${f'n/{a}/{i}.txt': b'Date: 1801\n\n' + b.encode() for i, (a, b) in enumerate(ROWS)}
train t  =>  no document.*1\.docx left out: it is a Word document
    =>  ${'t/a/1.docx': DOCX, 't/b/2.docx': DOCX}
train t.parquet  =>  'label' is 2, and its 2 classes count from 0  =>  $class_labels([0, 2] * 20, GOOD_BAD)
train t.csv.zst  =>  damaged or cut off
    =>  $pyarrow.compress(FILES['reviews.csv'], codec='zstd', asbytes=True)[:-20]
train t.arff  =>  line 5 is no row of ARFF with all attributes
    =>  @relation r\n@attribute text string\n@attribute class {a,b}\n@data\n{0 x, 1 b}\n
train t.jsonl  =>  labels.*once|swapped
    =>  $jsonl(({'messages': [{'role': 'user', 'content': b}, {'role': 'assistant', 'content': f'well,
    {b}'}]} for _, b in ROWS))
train t.json --annotators bo  =>  --annotators bo is not one of all, majority, 0, 1  =>  $annotated('', 'bad')
train t.csv  =>  may have several labels; learn all of them with --multilabel
    =>  $table([(b, ("['a', 'b']", "['c']")[i % 2]) for i, (_, b) in enumerate(ROWS)], ('text', 'labels'))
train t.csv --label good,bad --multilabel
    =>  line 2: 'bad' is '-1'; columns of labels hold 1 for yes, 0 for no
    =>  $table([(b, 1, -1) for _, b in ROWS], ('text', 'good', 'bad'))
predict m.textsvm t.csv  =>  no column 'text'.* trained on.* its 2 columns are: class, review$
    =>  $table(ROWS, ('class', 'review'))
train t  =>  t holds tables \(a\.csv\) and texts \(i\.html\).*--format
    =>  ${'t/a.csv': FILES['reviews.csv'], 't/i.html': b'<p>Some text</p>\n'}
train t  =>  t holds tables \(bad/a\.csv\) and texts
    =>  ${'t/bad/a.csv': FILES['reviews.csv']} | {f't/{a}/{i}.txt': b.encode() for i, (a,
    b) in enumerate(ROWS)}
predict lines.textsvm t  =>  t holds tables \(a\.csv\) and texts \(b\.txt\)
    =>  ${'t/a.csv': FILES['reviews.csv'], 't/b.txt': b'Some text\n'}
train t.zip  =>  in\.zip in t\.zip is an archive in an archive
    =>  $zipped(in_DOT_zip=zipped(a_DOT_csv=FILES['reviews.csv']))
train t.csv --regress stars  =>  decimal mark of 'stars' a comma or a point \(1,5, 2.25\)
    =>  $table([(('1,5', '2.25')[t.endswith('n9')], t) for _, t in ROWS], ('stars', 'text'))
predict lines.textsvm t.csv  =>  first line a header.*remark  =>  $table([(t,) for _, t in ROWS], ('remark',))
predict m.textsvm t.csv
    =>  no column 'text'.*trained on.*first line is not a header; its 1 columns are: remark
    =>  $table([(t,) for _, t in ROWS], ('remark',))
train t.csv --text text --label label  =>  t\.csv  =>  $b'label;text, long\n' + table(ROWS, delimiter=';')
train place --text text  =>  place.*(folder|column)
    =>  ${'place/good/1.txt': b'fine', 'place/bad/1.txt': b'poor'}
predict said.textsvm t.csv said.csv --output-format csv  =>  are those of the first table.*'mood'
    =>  $table([(1, 'fine')], ('nr', 'utterance'))  =>  2
predict m.textsvm t.jsonl  =>  line 1: 'text' is a list or an object
    =>  $json_lines({'text': {'body': 'a'}}, {'text': {'body': 'b'}})
train t.jsonl  =>  --multilabel
    =>  $b''.join((json.dumps({'label': [a, 'x'], 'text': b}).encode() + b'\n' for a, b in ROWS))
evaluate m.textsvm t.csv  =>  (label|class).*(excellent|terrible)
    =>  $table([({'good': 'excellent', 'bad': 'terrible'}[a], b) for a, b in ROWS], ('label', 'text'))
train t.jsonl  =>  the label 'go.*' has a lone surrogate, which is no character
    =>  $b'{"label": "go\\ud800", "text": "fine"}\n' + FILES['reviews.jsonl']
train t.jsonl  =>  1 of the 41 rows of t\.jsonl has no text \(line 1\)
    =>  $b'{"label": "good", "text": null}\n' + FILES['reviews.jsonl']
train t.txt  =>  1 of the 41 rows of t\.txt has no text \(line 41\)  =>  $FILES['reviews.txt'] + b'good\t\n'
predict lines.textsvm t.txt  =>  line 41: its text is empty  =>  $FILES['reviews.txt'] + b'good\t\n'  =>  41
predict m.textsvm t.jsonl  =>  line 2.*not.*JSON  =>  {"text": "fine"}\n{"text": "cut\n{"text": "poor"}\n
    =>  3
explain m.textsvm t.txt  =>  t\.txt has no text: it is empty, or white space alone  =>  \x20\n\x20\n
train t.txt  =>  t\.txt  =>  \x20\n\x20\n
label t.txt --format lines -o l.jsonl --labels a,b  =>  t\.txt  =>  \x20\n\x20\n
evaluate m.textsvm t.csv --json  =>  20 of 40 documents.*different only in case
    =>  $table([(a.replace('b', 'B'), t) for a, t in ROWS], COLUMNS)  =>  1
predict m.textsvm t.csv --output-format csv  =>  line 2.*3 fields and not 2  =>  text,n\nfine,1,2\npoor,2\n
    =>  3
train t.csv --regress stars  =>  NaN|nan
    =>  $table([('nan' if i == 3 else s, t) for i, (s, t) in enumerate(STARS)], ('stars', 'text'))
train two.libsvm --encoder e -o new.textsvm  =>  an encoder reads texts, and the kernel compares vectors
    =>  $ENCODER
train reviews.csv --multiclass ordered
    =>  ordered classes are numbers, and 'bad' is none: .*ordered:low<medium<high
train reviews.csv --multiclass ordered:bad<fair
    =>  each class once, the lowest first, and names 'good' 0 times
train t.csv --text text --label label  =>  several columns 'text'
    =>  $table([(i, *r) for i, r in enumerate(ROWS)], ('text', 'label', 'text'))
train t.csv --text 2 --label 1  =>  first line a header.*'mood'  =>  $table(ROWS, ('mood', 'remark'))
predict few.textsvm reviews.csv --unsure 0.1,0.9  =>  --calibrate
train reviews.csv --holdout 0.001  =>  : 1 of 40 documents held out leave 39 and.*each of the 2 classes
train reviews.csv --holdout 0.99  =>  held out leave 0 and
predict place reviews.csv  =>  is a folder; name a file  =>  ${'place/x': b''}
predict m.textsvm - --text nosuch  =>  no column 'nosuch'  =>  text,label\na,b\n
predict m.textsvm - --text text --id nosuch  =>  no column 'nosuch'  =>  text,label\na,b\n
explain m.textsvm - --text nosuch  =>  no column 'nosuch'  =>  text,label\na,b\n
tune reviews.csv --metric beauty -C 1  =>  metric 'beauty' is not one of accuracy
train t.csv --weights w  =>  line 2: the weight is ''  =>  text,label,w\naaaaa,x,\nbbbbb,y,1\n
train t.csv --regress y  =>  no document of .* has a number in column 'y'  =>  text,y\naaaaa,\nbbbbb,\n
train t.csv --regress y  =>  line 2: the target is 'inf'  =>  text,y\naaaaa,inf\nbbbbb,1\n
train t.jsonl  =>  'label' .*no label  =>  {"text": "a", "label": [["x"]]}\n
train n  =>  --level 1 \(Goethe, Schiller\) or --level 2  =>  $UNEVEN
cv n  =>  --level 1 \(Goethe, Schiller\) or --level 2  =>  $UNEVEN
tune n --kernel spectrum:1-3  =>  --level 1 \(Goethe, Schiller\) or --level 2  =>  $UNEVEN
compare n  =>  --level 1 \(Goethe, Schiller\) or --level 2  =>  $UNEVEN
evaluate m.textsvm n  =>  --level 1 \(Goethe, Schiller\) or --level 2  =>  $UNEVEN
corpus n  =>  --level 1 \(Goethe, Schiller\) or --level 2  =>  $UNEVEN
doubts n  =>  --level 1 \(Goethe, Schiller\) or --level 2  =>  $UNEVEN
train t.csv --encoding latin1  =>  t\.csv begins with the byte order mark of UTF-8.*leave out --encoding
    =>  $f"\ufeff{labelled('a', 'b').decode()}".encode('utf-8')
train t.csv --encoding cp1251  =>  t\.csv begins with the byte order mark of UTF-16-LE.*leave out --encoding
    =>  $f"\ufeff{labelled('a', 'b').decode()}".encode('utf-16-le')
train t.csv --encoding utf-8  =>  t\.csv begins with the byte order mark of UTF-16-BE.*leave out --encoding
    =>  $f"\ufeff{labelled('a', 'b').decode()}".encode('utf-16-be')
train t.csv --encoding utf-16-be
    =>  t\.csv begins with the byte order mark of UTF-16-LE.*leave out --encoding
    =>  $f"\ufeff{labelled('a', 'b').decode()}".encode('utf-16-le')
train t.jsonl  =>  line 1: 'text' is a list or an object, no text.*--text text.title
    =>  {"text": {"title": "a"}, "label": "b"}\n
train t.jsonl  =>  line 1: 'label' .*--label label.name  =>  {"text": "a", "label": {"name": "b"}}\n
train t.jsonl  =>  line 1: 'text' is a list  =>  {"text": ["a", "b"], "label": "b"}\n
train t.jsonl  =>  line 1: 'label' is a list  =>  {"text": "a", "label": [{"name": "b"}]}\n
train t.jsonl  =>  line 2: 'text' is a list or an object
    =>  {"text": "a", "label": "b"}\n{"text": {"x": "a"}, "label": "b"}\n
train t.jsonl --text a.b  =>  line 1: 'a.b' is a list or an object.*--text a.b.c
    =>  {"a": {"b": {"c": "x"}}, "label": "b"}\n
predict m.textsvm t.txt  =>  its text is empty; correct  =>  \x20\t\x20\n\n  =>  1
predict m.textsvm t.txt  =>  its text is empty; correct  =>  \xe2\x80\x8b\xef\xbb\xbf \xc2\xa0  =>  1
predict m.textsvm t.txt  =>  its text is empty; correct  =>  \xef\xbb\xbf  =>  1
predict m.textsvm t.csv  =>  t\.csv holds no document  =>  text,label\n
predict m.textsvm t.csv  =>  t\.csv is empty  =>  \xef\xbb\xbf
predict m.textsvm t.csv  =>  1 of the rows got no label  =>  text\n\xe2\x80\x8b\nfine\n  =>  2
predict m.textsvm t.txt  =>  its text is empty; correct  =>  \n\n\n  =>  1
predict m.textsvm n/a.txt  =>  is empty  =>  ${'n/a.txt': b''}
predict m.textsvm n/a.txt  =>  its text is empty; correct  =>  \x20\x20\n  =>  1
train reviews.csv --kernel gap:2+spectrum:5000  =>  shorter than p = 5000 of its part spectrum:5000
predict few.textsvm reviews.csv --none 0.05  =>  --calibrate
doubts t.csv --text text  =>  has no labels  =>  text\na\nb\n
train absent.csv --without-texts --kernel edit  =>  spectrum kernels, linear kernels and sums of them can
train absent.csv --without-texts --kernel gap:3  =>  spectrum kernels, linear kernels and sums of them can
train absent.csv --without-texts --kernel gapped  =>  spectrum kernels, linear kernels and sums of them can
train absent.csv --without-texts --kernel spectrum:2*spectrum:3  =>  spectrum kernels, linear kernels and
train t.jsonl --multilabel  =>  no document has a label
    =>  {"text": "a", "labels": []}\n{"text": "b", "labels": []}\n
compare t.csv --holdout 0.5 -q  =>  cannot be trained on 2 documents  =>  text,label\nq,x\nz,y\nw,x\nv,y\n
train reviews.csv --kernel bounded-gap:3 --memory 9kB --solver features  =>  need about
train reviews.csv --vectors two.npy  =>  4 vectors and
train wide.npy -o new.textsvm  =>  wide\.npy has no labels; give them in a separate file, --labels
train two.npy --labels classes.txt -o new.textsvm  =>  40 labels, and
train reviews.csv --kernel gaussian:gamma=0.3  =>  holds texts, and the kernel
train two.libsvm --kernel gap  =>  holds vectors, and the kernel compares texts
train two.libsvm --kernel a=gap  =>  as libsvm, which has no column 'a'
train reviews.csv --numbers hours -o new.textsvm  =>  no column 'hours'
train reviews.csv --numbers label --text text -o new.textsvm  =>  lines 2, .*its number 'label' is 'good'
train bad.svm -o new.textsvm  =>  bad\.svm, line 2, column 3: '-1:1' is not  =>  1 1:1\n1 -1:1\n
train two.libsvm --kernel gaussian:gamma=0.3 --without-texts  =>  without its support vectors
train x.fa -o new.textsvm  =>  x\.fa has no labels: the header of record 1, a, names none
    =>  >a\nACGT\n>b\nAACC\n
train x.fa --label class -o new.textsvm  =>  the header of record 1, a, names none
    =>  >a 1\nACGT\n>b 0\nAACC\n
train x.fa --kernel gapped:6,m=2,canonical  =>  record b of .*x\.fa has the letter 'E', and a canon
    =>  >a label=x\nACGT\n>b label=y\nAAEC\n
train x.fa -o new.textsvm  =>  x\.fa, line 1: 'AC' stands before the first >  =>  AC\n>a label=x\nACGT\n
train x.fa -o new.textsvm  =>  record 1 \(line 1\) left out: 'a label=x' has no sequence  =>  >a label=x\n
train x.fa -o new.textsvm  =>  record 1 \(line 1\) has ';', which is no letter  =>  >a label=x\nAC;T\n
"""
#: Commands that are wrong usage.
WRONG_USAGE = r"""
train said.csv --label mood --regress utterance  =>  --label and --regress
train reviews.csv -o none/m.textsvm --kernel spectrum:2  =>  none
trian reviews.csv  =>  (No such command|unknown).*trian
train reviews.csv --kernle x  =>  --kernle
tune stars.csv --regress stars --kernel auto  =>  --kernel auto is only for classifiers of texts
tune two.libsvm --kernel auto  =>  only for classifiers of t
cv reviews.csv --folds 1 --kernel spectrum:2  =>  folds
predict m.textsvm reviews.csv -o reviews.csv  =>  reviews\.csv
predict m.textsvm reviews.csv -o said.csv  =>  said\.csv.*force
predict sure.textsvm reviews.csv --coverage 95  =>  --coverage
predict sure.textsvm reviews.csv --unsure 0.8,0.2  =>  --unsure
train reviews.csv --kernel spectrun:3 -o new.textsvm  =>  spectrun.*spectrum
train two.libsvm --kernel rbf -o new.textsvm  =>  rbf is called gaussian
train reviews.csv --one-class -o new.textsvm  =>  --one-class needs.*-o is
train reviews.csv --kernel spectrum:0 -o new.textsvm  =>  p
train reviews.csv --kernel spectrum:three -o new.textsvm  =>  three
train reviews.csv -C -1  =>  C
train reviews.csv -C high  =>  high
train reviews.csv --kernel edit:gamma=0 -o new.textsvm  =>  gamma
train reviews.csv --kernel gap:decay=1.5 -o new.textsvm  =>  decay
train reviews.csv --encoder no  =>  no is not there
train reviews.csv --encoder a+b  =>  encoder a\+b is not there
cv reviews.csv --encoder reviews.txt  =>  is a file; name its f
train reviews.csv --kernel encoder -o new.textsvm  =>  must be a folder
train reviews.csv --device cuda:7  =>  cuda:7|GPU
train reviews.csv --memory lots  =>  lots
train stars.csv --regress stars --multiclass ordered  =>  --multiclass.*--regress
train stars.csv --regress stars --calibrate sigmoid  =>  calibrat
train stars.csv --regress stars --multilabel  =>  multilabel
evaluate m.textsvm reviews.csv --report none/r.html  =>  none
compare reviews.csv --kernel nothing  =>  nothing
map reviews.csv  =>  -o FILE.*\.html or \.svg
map reviews.csv -o m.png  =>  m\.png.*\.html or \.svg
map reviews.csv -o -  =>  \.html or \.svg
map reviews.csv --kernel auto -o m.svg  =>  auto
tune reviews.csv -C 1,x  =>  x
train reviews.csv -o reviews.csv --kernel spectrum:2  =>  reviews\.csv
train n --level 0  =>  --level  =>  $UNEVEN
map reviews.csv -o m.html  =>  --force  =>  notes
train reviews.csv -o new.textsvm -C 0,5  =>  decimals have a point
train reviews.csv -o new.textsvm -C 1,5  =>  decimals have a point
cv reviews.csv -C 0,25  =>  decimals have a point
tune reviews.csv -C 0,5  =>  decimals have a point
tune reviews.csv -C '1;5'  =>  decimals have a point
tune stars.csv --regress stars --epsilon 0,1  =>  decimals have a point
cv stars.csv --regress stars --epsilon 0,1  =>  decimals have a point
train reviews.csv -o new.textsvm --holdout 0,2  =>  decimals have a point
train reviews.csv --tol 0,001  =>  decimals have a point
doubts reviews.csv --at-least 0,5  =>  decimals have a point
tune reviews.csv --kernel gap --decay 0,5  =>  decimals have a point
cv reviews.csv --kernel gap:decay=0,5  =>  decimals have a point
predict sure.textsvm reviews.csv --unsure 0,9  =>  decimals have a point
compare reviews.csv --holdout 0,3  =>  decimals have a point
cv reviews.csv --fold 3  =>  see textsvm cv --help
train reviews.csv --kernle x  =>  see textsvm train --help
evaluate m.textsvm reviews.csv --besides m.textsvm  =>  see textsvm evaluate --help
predict m.textsvm reviews.csv --jsonl  =>  see textsvm predict --help
model m.textsvm --show  =>  see textsvm model --help
cv reviews.csv --seed -1  =>  --seed
cv reviews.csv --seed 99999999999  =>  --seed
tune reviews.csv --seed -1  =>  --seed
tune reviews.csv --seed 99999999999  =>  --seed
train reviews.csv --holdout 0.2 --seed -1  =>  --seed
train reviews.csv --holdout 0.2 --seed 99999999999  =>  --seed
label reviews.csv -o l.jsonl --seed -1  =>  --seed
label reviews.csv -o l.jsonl --seed 99999999999  =>  --seed
cv reviews.csv --seed 4294967296  =>  --seed
tune reviews.csv --seed 1.5  =>  --seed
train reviews.csv --holdout 0.2 --seed 0x10  =>  --seed
predict m.textsvm reviews.csv -o mine.jsonl  =>  mine.jsonl is there and is not  =>  $PRECIOUS
cv reviews.csv --predictions mine.jsonl  =>  mine.jsonl is there and is not  =>  $PRECIOUS
doubts reviews.csv -o mine.jsonl  =>  mine.jsonl is there and is not  =>  $PRECIOUS
train reviews.csv --label text --label label  =>  --label stands twice
predict m.textsvm reviews.csv --id text --id label  =>  --id stands twice
cv reviews.csv --label text --label label  =>  --label stands twice
corpus reviews.csv --format text --format label  =>  --format stands twice
evaluate m.textsvm reviews.csv --sheet text --sheet label  =>  --sheet stands twice
label reviews.csv -o l.jsonl --encoder text --encoder label  =>  --encoder stands twice
train reviews.csv -C 1 -C2  =>  -C stands twice
predict m.textsvm reviews.csv -o a.csv --output b.csv  =>  --output stands twice
train reviews.csv --table header=1 --table header=2  =>  --table header stands twice
train reviews.csv -C nan  =>  -C nan must be
train reviews.csv --kernel spectrum:p=5-3  =>  must not fall
train reviews.csv --kernel gap:decay=0  =>  decay
train reviews.csv --kernel edit:decay=0.5  =>  'decay=0.5' is no option
train reviews.csv --kernel gap,edit  =>  --kernel names 2 kernels; `textsvm tune`
train reviews.csv --kernel auto --kernel gap  =>  name a kernel
train reviews.csv --kernel auto:3  =>  'auto' is no kernel
train reviews.csv --holdout 1.5  =>  --holdout
train reviews.csv --holdout 0  =>  --holdout must be between 0 and 1, got 0
train reviews.csv --negative bad  =>  --negative needs --positive
train reviews.csv --device tpu  =>  tpu
train reviews.csv --epsilon 0.1  =>  --epsilon is not an option of a classifier
train reviews.csv --nu 0.1  =>  --nu needs --one-class
train reviews.csv --one-class good --nu 2 --kernel gap  =>  --nu 2.0 must
train reviews.csv -C 1,10  =>  textsvm tune
train reviews.csv --multiclass all  =>  all
train stars.csv --regress stars --positive x  =>  --positive and --regress do not go together
train stars.csv --regress stars --epsilon -1  =>  --epsilon -1.0 must
train stars.csv --regress stars --kernel auto  =>  name a kernel
cv reviews.csv --repeats 0  =>  --repeats must be at least 1, got 0
cv reviews.csv --predictions no/such/x  =>  no/such
tune reviews.csv -C 1,-10  =>  -C -10
tune reviews.csv --p 3,x  =>  --p x
tune reviews.csv --kernel gap,fancy  =>  --kernel fancy
tune reviews.csv --kernel gap,edit --weight log  =>  not an option of the gap or edit kernel
tune reviews.csv --weight count,heavy  =>  --weight heavy
tune reviews.csv --minutes 0  =>  --minutes must be positive, got 0
tune reviews.csv --nested 1  =>  --nested must be at least 2, got 1
predict m.textsvm reviews.csv -o out  =>  suffix decides the format.*\.csv, \.tsv
predict m.textsvm reviews.csv -o out.txt  =>  suffix decides the format
predict m.textsvm reviews.csv -o out.xls  =>  suffix decides the format
predict m.textsvm reviews.csv -o out.xlsm  =>  suffix decides the format
predict m.textsvm reviews.csv -o out.csv.gz  =>  suffix decides the format
predict m.textsvm reviews.csv -o out.cvs  =>  suffix decides the format
predict m.textsvm reviews.csv -o o.csv --output-format tsv  =>  do not go together
predict m.textsvm reviews.csv -o m.textsvm --output-format csv --force  =>  would replace the model
predict m.textsvm reviews.csv --output-format excel  =>  output-format
predict m.textsvm reviews.csv -o o.json --all-classes  =>  is for tables
doubts reviews.csv -o out.txt  =>  suffix decides the format
cv reviews.csv --predictions out.txt  =>  suffix decides the format
explain m.textsvm --top 3 -o out.csv  =>  name a \.tsv file
explain m.textsvm --top 3 --json -o o.tsv  =>  name a \.jsonl file
label said.csv --text utterance -o labels.csv  =>  name a \.jsonl file
label said.csv --text utterance -o l.textsvm  =>  name a \.jsonl file
train reviews.csv -o results.csv
    =>  results\.csv ends in \.csv, but the output is a textsvm model; name a \.textsvm file
train reviews.csv -o r.html --force  =>  name a \.textsvm file
update m.textsvm reviews.csv -o r.csv  =>  name a \.textsvm file
tune reviews.csv --kernel edit -o t.csv  =>  name a \.textsvm file
export m.textsvm --to onnx -o e.html  =>  e\.html ends in \.html, but the format is onnx; name a \.onnx file
train reviews.csv --kernel spectrum:3+encoder:e --encoder e -o new.textsvm
    =>  --encoder e does not go with --kernel spectrum:3\+encoder:e, which names an encoder
compare reviews.csv --kernel encoder:e --encoder f --kernel fast
    =>  --encoder f does not go with --kernel encoder:e, which names an encoder
cv reviews.csv --encoder e --kernel fast  =>  the encoder .*e is damaged
    =>  ${'e/model.safetensors': b'none', 'e/tokenizer.json': b'{}'}
train reviews.csv --multiclass ordered:
    =>  "ordered:" names no class; give "ordered:low<high", or "ordered" for numbers
explain m.textsvm reviews.csv -o page.txt  =>  \.html
explain m.textsvm reviews.csv -o -  =>  \.html
train reviews.csv --kernel spectrum:tokens=letters -o new.textsvm
    =>  tokens=letters is not one of characters, words
evaluate m.textsvm a --beside a --beside b --beside c --beside d --beside e --beside f --beside g --beside h
    =>  at most 8 models
evaluate m.textsvm reviews.csv --report r.txt  =>  must end in \.html
predict m.textsvm reviews.csv -o out.xlsx --output-format csv  =>  do not go together
predict m.textsvm reviews.csv --all-classes  =>  --all-classes is for tables
predict m.textsvm reviews.csv -o there.xlsx  =>  there\.xlsx is there and is not certain  =>  body\nlunch\n
predict m.textsvm reviews.csv -o there.csv  =>  is there and is not predictions as CSV  =>  body\nlunch\n
compare reviews.csv --kernel spectrum:9-3  =>  --kernel spectrum:9-3: '9-3' is no option in spectrum:9-3
compare reviews.csv --kernel words:1+gap:4,idf  =>  'idf' is no option in gap:4,idf
compare reviews.csv --kernel sum  =>  'sum' is no kernel
compare reviews.csv --kernel edit:gamma=-1  =>  --kernel edit:gamma=-1: gamma=-1\.0
compare reviews.csv --holdout 1  =>  --holdout must be between 0 and 1, got 1
compare reviews.csv --cv 1  =>  --cv must be at least 2, got 1
compare reviews.csv --cv 3 --holdout 0.5  =>  do not go together
compare reviews.csv --report x.md  =>  must end in \.html
compare reviews.csv --report no/x.html  =>  does not exist
compare reviews.csv --device gpu  =>  device
train reviews.csv --kernel spectrum:2+gop:3  =>  --kernel spectrum:2\+gop:3: 'gop' is no kernel; take one of
tune reviews.csv --kernel spectrum:2-4 --p 3  =>  --p does not go with --kernel spectrum:2-4
train reviews.csv --kernel spectrum:2 --kernel gap:2  =>  2 kernels
train reviews.csv --kernel sum  =>  --kernel sum is not one of spectrum, edit, gap
predict sure.textsvm reviews.csv --coverage 2  =>  --coverage 2
doubts reviews.csv --report d.md  =>  must end in \.html
doubts reviews.csv -o reviews.csv --force  =>  would replace the corpus
cv reviews.csv --multilabel --positive good  =>  --multilabel and --positive do not go together
cv stars.csv --multilabel --regress stars  =>  --multilabel and --regress do not go together
train reviews.csv --label-separator ';'  =>  needs --multilabel
train reviews.csv --multilabel --one-class good  =>  one-class
train reviews.csv --multilabel --calibrate sigmoid  =>  calibrat
train reviews.csv --multilabel --multiclass ovr  =>  multiclass
train reviews.csv --solver x  =>  --solver.*'?x'? is not one of '?auto'?, '?gram'?, '?features
train reviews.csv --solver features --multiclass crammer-singer  =>  crammer-singer
train reviews.csv --solver features --kernel gap:2  =>  no list of features
cv reviews.csv --solver features  =>  --solver
label reviews.csv --import reviews.csv --export x.csv  =>  --import and --export do not go together
label reviews.csv --export x.csv --multilabel -o x  =>  --export opens no page: of the page's options it takes
label reviews.csv --export x.csv --multilabel --labels a,b  =>  options it takes --multilabel alone
label reviews.csv --export x.csv --multilabel --strategy random  =>  options it takes --multilabel alone
label reviews.csv --export x.csv --multilabel --port 8001  =>  options it takes --multilabel alone
label reviews.csv -o x.jsonl --relevant good --strategy random
    =>  has an order of its own: leave out --strategy
label reviews.csv  =>  name the file of labels
label reviews.csv --export x  =>  not one of \.csv, \.jsonl
label reviews.csv --export reviews.csv --force  =>  would replace
label reviews.csv -o other.jsonl  =>  is not labels  =>  {"a": 1}\n
export m.textsvm -o m.onyx  =>  m\.onyx is not one of \.html
export m.textsvm  =>  -o
export m.textsvm -o folder  =>  give the format \(--to\)
export m.textsvm --to bin -o m.textsvm --force  =>  would replace the model
"""
#: Commands of mail that fail.
MAIL_FAILS = r"""
mail learn --as Newsletter --store s  =>  lower-case.*'Newsletter'
mail learn --as 'two words' --store s  =>  lower-case.*'two words'
mail learn --as a:b --store s  =>  lower-case.*'a:b'
mail learn --as unsure --store s  =>  is not unsure
mail unlearn --category bills --store s  =>  no mail store
mail unlearn --category bills --store s one.eml  =>  goes with no FILES
mail learn --as ham --store s msg/a.msg  =>  a\.msg.*Outlook  =>  $OUTLOOK
mail learn --like spam x  =>  see textsvm mail learn --help
mail learn --as spam reviews.csv --store s  =>  reviews.csv is (no message|an archive)
mail learn --as spam reviews.jsonl --store s  =>  reviews.jsonl is (no message|an archive)
mail learn --as spam dna.fa --store s  =>  dna.fa is (no message|an archive)
mail learn --as spam x.txt --store s  =>  x.txt is (no message|an archive)  =>  only a text\n
mail learn --as spam x.pdf --store s  =>  x.pdf is (no message|an archive)  =>  %PDF-1.7\n
mail learn --as spam x.docx --store s  =>  x.docx is (no message|an archive)  =>  $DOCX
mail learn --as spam m.csv --store s  =>  m.csv is no message  =>  label,text\nspam,"a\nSubject: x\n"\n
mail learn --as spam --store s  =>  - is no message: it has no header  =>  $FILES['reviews.csv']
"""
#: Commands that work, and a pattern of what they say.
NOTES = r"""
train n --level 2  =>  level 2, UTF-8, 2 classes \(Faust, Werther\)  =>  $UNEVEN
predict m.textsvm n  =>  read n: 18 texts, one per file; UTF-8 device  =>  $UNEVEN  =>  18
predict said.textsvm t.csv --text 1  =>  header yes  =>  note,utterance\nawful day,x\nwarm,y\n  =>  2
predict m.textsvm -q  =>  warning: -: it is read as one document of 2 lines  =>  a good day\nan awful day\n
predict m.textsvm t.txt  =>  text after the label  =>  bad\ta fine day\ngood\tx\n  =>  2
predict m.textsvm l.txt --format file  =>  one per file  =>  Date: 12. Mai 1801\nLieber Freund\n
train t.svm -o new.textsvm  =>  first index 0|indices count from 0  =>  $ZERO
corpus t.csv --json  =>  read as Windows-1252; --encoding names another  =>  $CYRILLIC
predict m.textsvm t.txt  =>  device  =>  $TABS  =>  40
evaluate m.textsvm t.txt --json  =>  device  =>  $TABS
predict m.textsvm t.txt  =>  device  =>  First, text, and label\nit was a lovely day\n
train reviews.csv -C 1e30  =>  C = 1e\+30 is far
predict m.textsvm reviews.csv  =>  warning: 100.0% of these documents were  =>    =>  40
predict m.textsvm reviews.csv -q  =>  warning: 100.0% of these documents were  =>    =>  40
predict sure.textsvm reviews.csv -q --proba  =>  warning: 100.0% of these documents were  =>    =>  40
predict topics.textsvm reviews.csv --quiet  =>  warning: 100.0% of these documents were  =>    =>  40
predict m.textsvm -  =>  warning: -: it is read as one document of 150 lines; --format lines
    =>  $b'a good day\n' * 150
compare t.csv --kernel spectrum:2 --json  =>  warning: 60 test documents have a copy in the training part
    =>  $table([(*row, part) for part in ('train', 'test') for row in texts(60)], ('label', 'text', 'part'))
cv t.csv --kernel spectrum:2 --json
    =>  warning: the folds do not keep copies together: 20 of 20 documents .*in long texts, digits
    =>  $table([('x', 'a text'), ('y', 'something else')] * 10, ('label', 'text'))
cv n --level 1  =>  read n: 18 texts, one per file; level 1, UTF-8, 2 classes \(Goethe, Schiller\)
    =>  $UNEVEN  =>  23
cv n --level 1 --groups folder --kernel spectrum:1-3 --folds 2  =>  level 1
    =>  $tree('n', 'a/x', 'a/y', 'b/z', 'b/w')  =>  33
predict m.textsvm t.csv --text 1 --table header=no  =>  read t.csv: 3 rows; text 1, .*header no
    =>  fine day\nawful day\nwarm\n  =>  3
predict m.textsvm t.csv --text 1 --table header=yes  =>  read t.csv: 2 rows; text note, .*header yes
    =>  note\nawful day\nwarm\n  =>  2
predict m.textsvm t.csv --text 2  =>  3 rows; text 2, .*header no  =>  1,fine day\n2,awful day\n3,warm\n
    =>  3
train t.csv --text 2 --label 1 --table header=yes  =>  text remark, label mood \(2\), .*header yes
    =>  $table(ROWS, ('mood', 'remark'))
evaluate m.textsvm t.csv --text 2 --label 1 --table header=no  =>  text 2, label 1 \(2\), .*header no
    =>  $table(ROWS)  =>  20
predict m.textsvm  =>  warning: -: it is read as one document of 2 lines; --format lines
    =>  a good day\nan awful day\n
predict m.textsvm t.txt  =>  one document of 40 lines.*read t.txt: 1 text, one per file
    =>  $b'a fine day\n' * 40
predict m.textsvm t.txt --format lines  =>  ^read t.txt: 40 texts, one per line; UTF-8
    =>  $b'a fine day\n' * 40  =>  40
predict m.textsvm t.txt --format file  =>  ^read t.txt: 1 text, one per file; UTF-8  =>  $b'a fine day\n' * 40
predict m.textsvm t.txt --format plain  =>  ^read t.txt: 2 texts, one per line; UTF-8
    =>  bad\ta fine day\ngood\tx\n  =>  2
train n --format file  =>  40 texts, one per file; UTF-8, 2 classes
    =>  ${f'n/{a}/{i}.txt': b'Date: 1801\n\n' + b.encode() for i, (a, b) in enumerate(ROWS)}
corpus t --json  =>  read t: 4 texts
    =>  ${f't/{name}': b'[x]\n' for name in ('desktop.ini', 'good/Thumbs.db', 'bad/.DS_Store',
    '__MACOSX/._a')} | FOLDER  =>    =>  "labels": {"bad": 2, "good": 2}.*"problems": \[\]
corpus t --json  =>  p\.png: left out: it is binary
    =>  ${'t/a.txt': FILES['reviews.txt'], 't/p.png': MODEL['t/p.png']}  =>    =>  "format": "lines".*"n": 40
corpus t.csv --json --encoding cp1251  =>  cp1251  =>  $CYRILLIC  =>    =>  "\\u0434\\u0430": 20|"да": 20
predict m.textsvm t  =>  m2\.textsvm, p\.png: left out, because the other files are tables
    =>  ${'t/a.csv': FILES['reviews.csv'], 't/b.jsonl': FILES['reviews.jsonl'], **MODEL}  =>  80
train t  =>  left out, because the other files are tables  =>  ${'t/a.csv': FILES['reviews.csv'], **MODEL}
train t.tsv --text text --label label  =>  read t\.tsv: 40 rows.*separator ,, header yes
    =>  $FILES['reviews.csv']
train t.jsonl --text text.body --label meta.class  =>  text text.body, label meta.class \(2\)
    =>  $json_lines(*({'text': {'body': b}, 'meta': {'class': a}} for a, b in ROWS))
train t.csv  =>  read t.csv: 40 rows; unread body \+ category, text text, label label \(2\)
    =>  $table([('t', b, 'x', 'y', a) for a, b in ROWS], ('title', 'text', 'body', 'category', 'label'))
train t.csv  =>  labels 'Good' and 'good' differ only in case or spaces
    =>  $table([(a.title() if i < 8 else a, b) for i, (a, b) in enumerate(ROWS)], COLUMNS)
train t  =>  label 'bad ' and 1 more: white space around a label is left out.* of 2 classes
    =>  ${f"t/{a}{' ' * (i < 8)}/{i}.txt": b.encode() for i, (a, b) in enumerate(ROWS)}
predict m.textsvm t.json  =>  40 rows
    =>  $json.dumps([{'data': {'text': text}, 'annotations': [{'completed_by': 1,
    'result': [{'from_name': name, 'value': {'choices': [label]}} for name in ('s', 't')]}]} for label,
    text in ROWS]).encode()  =>  40  =>  "label": "good"
train t.csv  =>  note: t\.csv, document 2: left out: it has no label
    =>  $table([('' if i == 0 else a, b) for i, (a, b) in enumerate(ROWS)], COLUMNS)
train t.csv  =>  : 3 of 43 documents are exact copies of others; sets of copies with different labels: 1
    =>  $table([('bad', ROWS[0][1]), *ROWS, ROWS[5], ROWS[5]], COLUMNS)
train t.csv  =>  note: 2 of the 5 classes have a single document
    =>  $table([('x', 'one'), ('y', 'two'), ('z', 'text three'), ('z', 'text four'), *ROWS], COLUMNS)
train t.csv --groups who --holdout 0.5 --json  =>  class 'rare' has 1 group: it is trained on and never held
    =>  $table([(*row, i) for i, row in enumerate([('rare', 'x y'), *ROWS])], (*COLUMNS, 'who'))
cv t.csv --kernel spectrum:2 --folds 60 --json  =>  note: 60 folds train as many machines; 5 or 10 folds
    =>  $table(texts(60), ('label', 'text'))
compare t.csv --kernel spectrum:2 --json --groups who  =>  60 test documents have others of their group
    =>  $table([(a, f'{b} {part}', part, i) for part in ('train', 'test') for i, (a, b) in
    enumerate(texts(60))], ('label', 'text', 'part', 'who'))
predict m.textsvm t.txt --format lines  =>  fewer than 5 % of the sequences of four characters.*do not trust
    =>  Der Zug hatte gestern wieder\nzwei Stunden Verspaetung.\n  =>  2
predict m.textsvm t.csv --output-format csv  =>  predicted_label_2
    =>  label,predicted_label,text\ngood,bad,fine\n  =>  2
predict m.textsvm t.csv --table header=no --text 1 --output-format csv  =>  no header.*label and confidence
    =>  fine,1\npoor,2\n  =>  2
train t  =>  note: good/x\.docx: left out: it is a Word document  =>  ${f"t/good/{'x.docx'}": DOCX} | FOLDER
train t  =>  note: good/x\.odt: left out: it is a LibreOffice document
    =>  ${f"t/good/{'x.odt'}": ODT} | FOLDER
train t  =>  note: good/x\.pdf: left out: it is binary  =>  ${f"t/good/{'x.pdf'}": b'%PDF-1.7\n'} | FOLDER
train t  =>  note: good/x\.jpg: left out: it is binary
    =>  ${f"t/good/{'x.jpg'}": b'\xff\xd8\xff\xe0' + bytes(99)} | FOLDER
train t  =>  note: good/x\.doc: left out: it is binary  =>  ${f"t/good/{'x.doc'}": OLE} | FOLDER
train t  =>  note: good/1\.txt\~: left out: it is the backup of an editor
    =>  ${f"t/good/{'1.txt~'}": b'old'} | FOLDER
train t  =>  note: good/\#1\.txt\#: left out: it is the backup of an editor
    =>  ${f"t/good/{'#1.txt#'}": b'old'} | FOLDER
corpus t.csv --json --encoding utf8  =>  40 rows  =>  $f"\ufeff{labelled('a', 'b').decode()}".encode('utf-8')
corpus t.csv --json --encoding utf-16  =>  40 rows
    =>  $f"\ufeff{labelled('a', 'b').decode()}".encode('utf-16-le')
corpus t.csv --json --encoding utf-16-be  =>  40 rows
    =>  $f"\ufeff{labelled('a', 'b').decode()}".encode('utf-16-be')
train t.csv  =>  '1' and '1.0' are the same number  =>  $labelled(*('1', '1.0', '2'))
train t.csv  =>  '1' and '01' are the same number  =>  $labelled(*('1', '01', '2'))
train t.csv  =>  'ham' and 'HAM' differ only in case  =>  $labelled(*('ham', 'HAM', 'spam'))
train t.csv  =>  differ only in case or spaces  =>  $labelled(*('a b', 'a  b', 'c'))
train t.csv  =>  differ only in case or spaces  =>  $labelled(*('A > B', 'A>B', 'c'))
train t.csv  =>  differ only in case  =>  $labelled(*('A', 'Ａ', 'b'))
train t.csv  =>  40 documents of 2 classes.*|'nan': a class like others  =>  $labelled('nan', 'other')
train t.csv  =>  warning: '-99', '.': a class like others  =>  $labelled('-99', '.', 'other')
train t.csv  =>  40 documents of 3 classes: -1 14  =>  $labelled('-1', '0', '1')
train t.csv  =>  40 documents of 2 classes.*|'NA': a class like others  =>  $labelled('NA', 'other')
train t.csv  =>  40 documents of 2 classes.*|'None': a class like others  =>  $labelled('None', 'other')
train t.csv  =>  40 documents of 2 classes.*|'null': a class like others  =>  $labelled('null', 'other')
train t.csv  =>  40 documents of 2 classes.*|'NaN': a class like others  =>  $labelled('NaN', 'other')
train t.csv  =>  2 texts are 'nan'.*an empty cell is a missing text
    =>  $table([('good', 'nan')] * 2 + ROWS, COLUMNS)
corpus --json t.csv  =>  3 texts are 'N/A'.*an empty cell is a missing text
    =>  $table([('good', 'N/A')] * 3 + ROWS, COLUMNS)
predict m.textsvm t.csv  =>  2 texts are 'null'.*an empty cell is a missing text
    =>  $table([('good', 'null')] * 2 + ROWS, COLUMNS)  =>  42
train t.csv --kernel fast -o new.textsvm  =>  warning: .*'ham' and 'HAM' differ
    =>  $labelled(*('ham', 'HAM', 'spam'))  =>    =>  ; next: check the labels
train t.csv --kernel spectrum:2 -q --json -o new.textsvm  =>  warning: .*'ham' and 'HAM' differ
    =>  $labelled(*('ham', 'HAM', 'spam'))  =>    =>  "warnings": \[\s*"[^]]*'ham' and 'HAM' differ
train t.csv --kernel spectrum:2 -q --json -o new.textsvm  =>  warning: .*'nan': a class like others
    =>  $labelled(*('nan', 'spam'))  =>    =>  "warnings": \[\s*"[^]]*'nan': a class like others
update m.textsvm t.csv -o new2.textsvm --json  =>  'good' and 'GOOD' differ only in case
    =>  $table([(('GOOD', 'bad')[i % 2], f'{text} more') for i, (_, text) in enumerate(ROWS)], COLUMNS)
update m.textsvm t.csv -o new2.textsvm --json  =>  differ only in case
    =>  $table([(('ｇood', 'bad')[i % 2], f'{text} more') for i, (_, text) in enumerate(ROWS)], COLUMNS)
update m.textsvm t.csv -o new2.textsvm --json  =>  read t.csv: 40 rows.*label \(2\)
    =>  $table([(('good\u200b', 'bad')[i % 2], f'{text} more') for i, (_, text) in enumerate(ROWS)], COLUMNS)
"""
MISTAKES = [
    # Paths
    Mistake("train reviews.csv -o place --kernel spectrum:2", "place", {"place/x": b""}, code=2),
    Mistake("train place", "place", {"place/.keep": b""}),
    Mistake("train none.tar.gz", "none\\.tar\\.gz", TAR.getvalue()),
    Mistake("train t.csv.gz", "t\\.csv\\.gz", gzip.compress(table(ROWS, ("label", "text")))[:-30]),
    Mistake("train t.zip", "t\\.zip", XLSX[:60]),
    Mistake("train p.png", "p\\.png.*binary", b"\x89PNG\r\n\x1a\n" + bytes(500)),
    Mistake("train p.pdf", "p\\.pdf.*(PDF|binary)", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + bytes(500)),
    *(
        Note(
            ESTIMATES[name],
            "note: 180 copies .* but for case, .*in long texts, digits\\) kept in one part with the original",
            {"t.csv": repeated(4, CHANGES[how])},
        )
        for name, how in [
            *(("cv", how) for how in CHANGES),
            ("tune", "with punctuation"),
            ("compare --cv", "in capitals"),
            ("train --holdout", "with another number"),
        ]
    ),
    # Folders in folders
    Mistake("train n", r"--level 1 \(a, b\) or --level 2 \(x\)", tree("n", "a", "a/x", "b")),
    Mistake("train n/a n/b", r"--level 1 \(a, b\) or --level 2 \(x, y\)", tree("n", "a/x", "a/y", "b/x")),
    Mistake("train n", "--level 1 .* --level 2 .* or --level 3", tree("n", "a/x/1", "a/x/2", "b/y/1")),
    Note("train n", r"level 2, UTF-8, 2 classes \(a, b\)", tree("n", "corpus/a", "corpus/b")),
    Note("train n", r"2 classes \(neg, pos\)", tree("n", "train/pos", "train/neg", "test/pos")),
    Note("cv n", "note: 12 documents of 2 classes: a 6, b 6", tree("n", "a", "b"), rows=23),
    Mistake("cv n --groups author", "no column 'author'", tree("n", "a", "b")),
    # Headers
    # Plain text
    Mistake("label t.txt -o l.jsonl --labels a,b", "t.txt is one text; --format lines", b"a fine day\n" * 40),
    # Spreadsheets and documents
    # Formats of other programs
    Mistake("train t.arrow", "t\\.arrow cannot be read", arrow(ipc.new_file)[:-50]),
    *(
        Note(
            "cv t.csv --multilabel --kernel spectrum:2 --folds 2 --json",
            "are read as lists of labels",
            table([(b, cells[i % 2]) for i, (_, b) in enumerate(ROWS)], ("text", "labels")),
            prints='"a".*"b".*"c"',
        )
        for cells in [
            ("['a', 'b']", "['c']"),
            ('c("a", "b")', 'c("c")'),
            ('["a", "b"]', '["c"]'),
            ("{'a', 'b'}", "{'c'}"),
            ("['a' 'b']", "['c']"),
        ]
    ),
    *(
        Mistake(
            "train t.csv --text text --label day",
            says,
            table([(b, day(i)) for i, (_, b) in enumerate(ROWS)], ("text", "day")),
        )
        for day, says in [
            (
                lambda i: f"{i // 3 + 1:02}.03.2024",
                "column 'day' holds dates and no classes; name .* --label",
            ),
            (lambda i: f"2024-03-{i // 3 + 1:02} 10:00", "column 'day' holds dates and no classes"),
            (lambda i: f"{i}.721,40", "holds no classes; predict numbers with --regress day"),
            (lambda i: f"name {i * 2 // 3}", "holds no classes; name the column"),
        ]
    ),
    *(
        Mistake(
            "train t.csv --label good,bad --multilabel",
            f"'good' is '{mark.replace('?', '.')}'; columns of labels hold 1 for yes, 0 for no, and nothing",
            table([(b, mark, "") for _, b in ROWS], ("text", "good", "bad")),
        )
        for mark in ["ja", "FALSCH", "x", "?"]
    ),
    Mistake(f"train {SAMPLES}/mail.tar.gz --encoding cp1251", "names its charsets; leave out --encoding"),
    # Tables beside other files
    left_out("a table beside a page", "t/a.csv", FILES["said.csv"], "i.html", b"<p>Some text</p>\n"),
    left_out("a table of an archive beside a note", "t/in.zip", zipped(a_DOT_csv=FILES["said.csv"])),
    left_out("a table of another name beside a note", "t/a.txt", FILES["said.csv"]),
    # Columns that were not named in training: the model records their usual names
    left_out("a table with the columns of training", "t/a.txt", FILES["reviews.csv"], model="m"),
    Note("predict m.textsvm", "device", stdin=FILES["reviews.csv"], rows=40),
    Note(
        "predict said.textsvm t",
        "left out, because the other files are tables",
        {"t/a.csv": FILES["said.csv"]}
        | {f"t/{i}": b"From: a@b.c\nTo: d@e.f\nSubject: x\nDate: today\n\nText\n" for i in range(2)},
        rows=40,
    ),
    Mistake("train t", "b\\.xlsx.*spreadsheet", {"t/a.csv": FILES["reviews.csv"], "t/b.xlsx": XLSX}),
    Mistake("train t", "b\\.csv is no table", {"t/a.csv": FILES["reviews.csv"], "t/b.csv": bytes(500)}),
    # Columns
    Mistake("evaluate said.textsvm t.csv", "t\\.csv.*'mood'", table([(t,) for _, t in ROWS], ("utterance",))),
    Mistake("predict said.textsvm - --format csv", "'utterance'", stdin=FILES["reviews.csv"]),
    Mistake("train t.csv", "t\\.csv.*(header|--text)", table(ROWS, ("mood", "remark"))),
    Mistake(f"mail learn --as {'x' * 41} --store s", "up to 40", code=3),
    Mistake(f"train {SAMPLES}/mail.tar.gz --label text", "mail.*column"),
    # Labels
    *(
        Mistake(
            f"train t.{suffix} {options}",
            rf"t\.{suffix}, (line|row) 2: the label .*{trouble}",
            {f"t.{suffix}": ODD_LABELS[suffix] % label.encode()},
        )
        for label, trouble, options in (
            ("Infinity", "not a finite number", ""),
            ("-1e400", "not a finite number", ""),
            ('["a", Infinity]', "not a finite number", "--multilabel"),
            (r'"\udc80"', "lone surrogate", ""),
            (r'["a", "\ud83d"]', "lone surrogate", "--multilabel"),
        )
        for suffix in ODD_LABELS
    ),
    Mistake("train t.csv", "(once|header|--label)", table([(b, a) for a, b in ROWS])),
    Mistake("train t.csv", "t\\.csv.*no labels", table([("", t) for _, t in ROWS], ("label", "text"))),
    Mistake("train t.csv", "class|document", table(ROWS[:1], ("label", "text"))),
    *(
        Note(
            f"train t.csv {options} -o new.textsvm",
            "class of a single document|copies" if title == "copies" else "a class of a single document",
            table([*ROWS, *[("rare", "one text alone")] * n], COLUMNS),
            prints=f"right on 40 of {40 + n} documents held out",
        )
        for title, n in [("once", 1), ("copies", 2)]
        for options in ("--kernel fast", "--kernel spectrum:2", "--kernel spectrum:2 --calibrate sigmoid")
    ),
    Note("train reviews.csv", "", prints="right on documents held out"),
    Note("cv t.csv", "'ham' and 'HAM' differ only in case", labelled("ham", "HAM"), rows=23),
    Mistake("evaluate m.textsvm t.csv", "t\\.csv.*label", table([(b,) for _, b in ROWS], ("text",))),
    # Rows
    Mistake("train t.csv", "t\\.csv.*binary", b"label,text\ngood,\x00\x00\x00\x00\x00\x00\x00\x00\n" * 9),
    Mistake(f"compare reviews.csv --encoder b=c {FAST}", "encoder b=c is not there", code=2),
    Mistake(f"compare reviews.csv --encoder . {FAST}", "is no encoder", code=2),
    Mistake("train t.csv --text text --label label", r"no column 'text'.*by number", table(ROWS)),
]


def in_lines(block, code):
    """Mistakes in lines: command => pattern => content => rows of output => pattern of the output.

    The content, with escapes as in Python or an expression after $, is that of the file that the command
    names and `FILES` has not, else of standard input. An indented line continues the line before.
    """
    for line in filter(None, block.replace("\n    =>", "  =>").replace("\n    ", " ").split("\n")):
        command, says, content, rows, prints, *_ = [*line.split("  =>  "), "", "", ""]
        if content.startswith("$"):
            files = eval(content[1:])
        else:
            files = content.encode().decode("unicode_escape").encode("latin-1")
        mistake = Mistake(command, says, files, code, rows=int(rows or code == 0), prints=prints)
        yield mistake if mistake.contents or not files else replace(mistake, files=b"", stdin=files)


for code, block in enumerate((NOTES, FAILS, WRONG_USAGE, MAIL_FAILS)):
    MISTAKES += in_lines(block, code)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.command)
def test_mistake(folder, tmp_path, mistake):
    for name in (*FILES, *(f"{model}.textsvm" for model in MODELS)):
        (tmp_path / name).symlink_to(folder / name)
    for name, content in mistake.contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    result = run(*mistake.words, cwd=tmp_path, stdin=mistake.stdin)
    message = result.stderr.decode()
    assert result.returncode == mistake.code, (result.returncode, message)
    assert "Traceback" not in message
    sentence = " ".join(line for line in message.splitlines() if line.startswith("textsvm: ") or mistake.rows)
    assert re.search(mistake.says, sentence), message
    assert len(result.stdout.splitlines()) == mistake.rows
    assert re.search(mistake.prints, result.stdout.decode()), result.stdout.decode()
    assert mistake.code == 0 or not (tmp_path / "new.textsvm").exists()


def test_skip_invalid_leaves_out_rows_without_a_text(folder, tmp_path):
    (tmp_path / "t.csv").write_bytes(HOLES)
    result = works(*Mistake("train t.csv --skip-invalid", "").words, cwd=tmp_path)
    assert b"t.csv: left out: 2 of 40 rows: its 'text' is empty (line 2, line 3)" in result.stderr
    assert b"38 documents" in result.stderr
    similar = run("predict", folder / "m.textsvm", folder / "reviews.csv")
    assert b"sequences of four" not in similar.stderr


@pytest.mark.parametrize("model", [SVC(), SVC("spectrum:2")], ids=["auto", "spectrum"])
def test_swapped_texts_and_labels(model):
    labels, documents = map(list, zip(*ROWS, strict=True))
    refuses(r"40 texts have only 2 different values.*swapped", model.fit, labels, documents)
    refuses("swapped", cross_validate, model, labels, documents, cv=2)
    refuses("4 texts have only 2 different values", model.fit, ["a", "b"] * 2, documents[:4])


@pytest.mark.parametrize(
    ("estimator", "parameter", "remedy"),
    [
        (SVC, "probability", "CalibratedSVC"),
        (SVC, "random_state", "leave it out"),
        (SVC, "c", "did you mean C"),
        (SVC, "kernl", "did you mean kernel"),
        (SVC, "gamma", "kernel=Gaussian"),
        (SVC, "verbose", "it has C, "),
        (SVR, "eps", "it has C, "),
        (SVR, "Epsilon", "did you mean epsilon"),
        (OneClassSVM, "NU", "did you mean nu"),
        (MultilabelSVC, "thresholt", "did you mean thresholds"),
        (CalibratedSVC, "methods", "did you mean method"),
        (OnlineSVC, "maxtexts", "did you mean max_texts"),
        (SpectrumFeatures, "analyzer", "Spectrum"),
        (Spectrum, "P", "did you mean p"),
        (GapWeighted, "decai", "did you mean decay"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_remedy(estimator, parameter, remedy):
    with pytest.raises(TypeError, match=f"^{estimator.__name__} has no parameter '{parameter}'; .*{remedy}"):
        estimator(**{parameter: 1})
    estimator()


@pytest.mark.parametrize(
    "data",
    [pd.DataFrame({"text": ["a"]}), [{"text": "a"}], {"text": ["a"]}, np.array(["a"]), 5, None, [1, 2]],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("read", [read_corpus, read_documents])
def test_data_in_memory_are_no_path(read, data):
    refuses(r"expected a path, got .*; fit takes texts and labels in memory", read, data)


@pytest.mark.parametrize("seed", [-1, 99999999999, 1.5, "x", True])
@pytest.mark.parametrize("call", [cross_validate, tune, doubts, CalibratedSVC, MultilabelSVC])
def test_a_seed_out_of_range(call, seed):
    labels, documents = map(list, zip(*ROWS, strict=True))
    expected = pytest.raises(InputError, match=r"random_state=.* must be a whole number from 0 to 4294967295")
    if call in (CalibratedSVC, MultilabelSVC):
        labels = [(label,) for label in labels] if call is MultilabelSVC else labels
        with expected:
            call(random_state=seed).fit(documents, labels)
        return
    grid = [{"C": [1]}] if call is tune else []
    with expected:
        call(SVC("spectrum:2"), documents, labels, *grid, random_state=seed)


def test_a_class_weight_of_a_class_that_a_fold_lacks():
    """As in scikit-learn, a dict may name other classes if it names all that there are."""
    labels, documents = map(list, zip(*ROWS, strict=True))
    weight = {"good": 1, "bad": 2, "rare": 5}
    scores = cross_val_score(
        SVC("spectrum:2", class_weight=weight), [*documents, "x y"], [*labels, "rare"], cv=2
    )
    assert (scores > 0.5).all()
    refuses("class_weight names 'godo'", SVC("spectrum:2", class_weight={"godo": 2}).fit, documents, labels)


@pytest.mark.parametrize("command", [["-h"], ["cv", "-h"], ["mail", "learn", "-h"], ["model", "-h"]])
def test_short_help_is_the_help(command):
    assert run(*command).stdout == run(*command[:-1], "--help").stdout != b""
    assert run("-V").stdout == run("--version").stdout


@pytest.mark.parametrize("command", ["train", "predict", "cv", "label"])
def test_the_short_help_has_the_columns_of_texts_and_ids(command):
    shown = run(command, "--help").stdout.decode()
    assert " --text " in shown
    assert " --id " in shown


@pytest.mark.parametrize("columns", ["30", "40", "59", "80"])
@pytest.mark.parametrize(
    ("command", "option"), [("cv", "--learning-curve"), ("tune", "--multiclass"), ("compare", "--holdout")]
)
def test_help_cuts_no_name_of_an_option(command, option, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
        get_command(app_of([command]))([command, "--help"])
    assert option in capsys.readouterr().out


@pytest.mark.parametrize(("form", "name"), [("jsonl", "p"), ("csv", "p"), ("csv", "p.md"), ("tsv", "p.txt")])
def test_predictions_go_into_a_file(form, name, folder, tmp_path):
    command = ["predict", folder / "m.textsvm", folder / "reviews.csv", "--output-format", form]
    shown = run(*command)
    for _ in range(2):  # its own file is replaced without --force
        written = run(*command, "-o", tmp_path / name)
        assert (written.returncode, written.stdout) == (0, b""), written.stderr
    assert (tmp_path / name).read_bytes() == shown.stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("train reviews.csv --max-length 0", "--max-length 0 must be a whole number above 0"),
        ("train reviews.csv --memory 5x", "--memory must be a positive number of bytes"),
        ("train reviews.csv --multiclass x", "--multiclass 'x' is not one of"),
        ("train reviews.csv --store s", '--kernel "auto" has no kernel matrix'),
        ("train reviews.csv --kernel edit --solver features", 'solver="auto" (--solver auto) or another'),
        ("tune reviews.csv --kernel gap --decay 3", "--decay 3.0 of the gap kernel must be"),
        ("tune reviews.csv --kernel gap:3,decay=4", "--kernel gap:3,decay=4: decay=4.0 of the gap kernel"),
        ("predict m.textsvm reviews.csv --top x", "--top must be a valid integer, got x (see"),
        ("doubts reviews.csv --at-least x", "--at-least must be a valid number, got x; decimals"),
        ("cv reviews.csv --folds 1", "--folds must be at least 2, got 1 (see"),
        ("cv reviews.csv --seed 4294967296", "--seed must be less than or equal to 4294967295, got"),
        # Names of the user are no options.
        ("predict max_iter.textsvm reviews.csv", "max_iter.textsvm is not there"),
        ("train tol=1/at_least", "tol=1/at_least is not there"),
        ("train reviews.csv --text max_length", "has no column 'max_length'"),
        ("train named.csv --text nope", "its 3 columns are: text, label, max_length"),
        ("train without_texts", "without_texts is not there"),
        ("train 'text needs work'", "text needs work is not there"),
        ("train 'text must be'", "text must be is not there"),
        ("train 'tol=1 is needed'", "tol=1 is needed is not there"),
        ("train 'mails or None.csv'", "mails or None.csv is not there"),
        ("cv reviews.csv --positive 'war or Nonesense'", "'war or Nonesense'"),
        ("cv reviews.csv --kernel edit --positive 'a or None'", "'a or None'"),
    ],
)
def test_an_error_names_options_and_no_parameters_of_python(command, words, folder):
    (folder / "named.csv").write_text("text,label,max_length\na b,x,1\nc d,y,2\n")
    error = run(*shlex.split(command), cwd=folder).stderr.decode()
    sentence = next(line for line in error.splitlines() if line.startswith("textsvm: "))
    assert sentence.removeprefix("textsvm: ").startswith(words) or not words.startswith("--")
    assert words in sentence
    assert "None" in words or "None" not in sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [f"{name} reviews.csv" for name in ("train", "cv", "doubts", "compare", "tune", "map")]
    + [f"{name} m.textsvm reviews.csv" for name in ("predict", "evaluate", "explain", "update", "export")]
    + ["label said.csv --text utterance"],
)
def test_a_wrong_value_of_any_option_is_told_in_terms_of_the_command_line(command, folder):
    name, *words = command.split()
    parameters = get_command(app_of([name])).commands[name].params
    names = {each.name for each in parameters if "_" in each.name} | {"time_budget", "tol", "memory", "nu"}
    python = re.compile(rf"(?<![-\w])({'|'.join(names)})\b(?=$|[^'./])|\b[a-z]\w+=['\d-]|or None")
    for option in parameters:
        if option.param_type_name != "option" or option.is_flag:
            continue
        for value in ("-3", "nan", "xyz"):
            message = run(name, *words, option.opts[-1], value, cwd=folder).stderr.decode()
            assert "Traceback" not in message
            error = "".join(line for line in message.splitlines() if line.startswith("textsvm: "))
            assert not python.search(error.replace(f" {value}", " ")), (option.opts, value, error)


def test_a_small_budget_of_memory_is_told_to_be_slow(tmp_path):
    command = ["train", "lines.csv", "--kernel", "edit", "-o", "new", "--quiet"]
    slow = "hold 2 of 600 rows of the kernel matrix: 19 times its values"
    rows = ((str(i % 2), f"{'ab'[i % 2]} {i}") for i in range(600))
    (tmp_path / "lines.csv").write_bytes(table(rows, ("label", "text")))
    for memory, told in (("19kB", True), ("300kB", False)):
        done = works(*command, "--memory", memory, cwd=tmp_path)
        warnings = [line for line in done.stderr.decode().splitlines() if line.startswith("warning: ")]
        assert len(warnings) == told == sum(slow in line for line in warnings), done.stderr.decode()
