"""A model as a page

The page classifies and explains texts while you type them, in any browser, without a server and without a
network. The same model is written for C and JavaScript, with the same decisions.
"""

import tempfile
from pathlib import Path

from textsvm import SVC, export, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("reviews"), text="text", label="label")
model = SVC().fit(corpus.texts, corpus.labels)
with tempfile.TemporaryDirectory() as folder:
    for form in ("page", "c", "js"):
        target = Path(folder, "review.html" if form == "page" else form)
        for path in export(model, target, to=form):
            print(f"{form:5} {path.name:20} {path.stat().st_size / 1000:8,.0f} kB")
