"""The sample corpora: what their script writes, in every format, and hard enough to be of use."""

import gzip
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from refusals import refuses
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC

from textsvm.readers import SAMPLES, sample
from textsvm.readers.read import read_corpus
from textsvm.text.documents import normalise

ROOT = Path(__file__).resolve().parent.parent


def members(path):
    with tarfile.open(path) as archive:
        return [(member.name, archive.extractfile(member).read()) for member in archive]


def test_the_script_writes_what_is_in_the_repository(tmp_path):
    subprocess.run([sys.executable, "-S", (ROOT / "corpora" / "make_samples.py"), tmp_path], check=True)
    for path in (ROOT / "corpora" / "samples").rglob("*"):
        again = tmp_path / path.relative_to(ROOT / "corpora" / "samples")
        if path.name.endswith(".tar.gz"):  # packed bytes depend on the zlib
            assert members(again) == members(path)
        elif path.suffix == ".gz":
            assert gzip.decompress(again.read_bytes()) == gzip.decompress(path.read_bytes())
        elif path.is_file():
            assert again.read_bytes() == path.read_bytes()


def test_samples_are_found_and_small():
    assert sum(path.stat().st_size for path in (ROOT / "corpora").rglob("*") if path.is_file()) < 1_000_000
    assert all(sample(name).exists() for name in SAMPLES)
    refuses("no sample 'nothing'; there is: newswire, mail", sample, "nothing")


def test_mails_are_varied():
    raw = b"".join(data for _, data in members(sample("mail"))).lower()
    assert len(set(re.findall(rb'charset="([^"]*)"', raw))) == 17
    for word in (
        b"base64",
        b"quoted-printable",
        b"8bit",
        b"text/html",
        b"multipart/alternative",
        b"image/gif",
        b"\r\n",
    ):
        assert word in raw


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "positive", "low", "high"),
    [
        ("newswire", "earn", 0.9, 0.99),
        ("newswire", "acq", 0.9, 0.99),
        ("mail", "spam", 0.88, 0.98),
        ("messages", "spam", 0.85, 0.97),
    ],
)
def test_a_good_classifier_is_mostly_right(name, positive, low, high):
    columns = {"text": "text", "label": "label"} if name == "messages" else {}
    corpus = read_corpus(sample(name), **columns).reduce_labels(positive)
    texts = [normalise(text) for text in corpus.texts]
    model = make_pipeline(
        CountVectorizer(analyzer="char", ngram_range=(4, 4)), Normalizer(), SVC(kernel="linear", C=10)
    )
    assert low < cross_val_score(model, texts, corpus.labels, cv=5).mean() < high
