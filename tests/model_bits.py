"""Digests of the models that the sample corpora train on a CPU, to be compared before and after a change.

    python tests/model_bits.py > before.json        # in a checkout of the commit before
    python tests/model_bits.py before.json          # after: names every model whose bits differ

A digest is of coefficients, biases, support indices, support vectors, and decision values at some texts. All
parameters are given, so no default hides a change. Times and device are no part of it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from textsvm import SVC, SVR, Compute, EditDistance, GapWeighted, OneClassSVM, Spectrum, read_corpus

SAMPLES = Path(__file__).resolve().parent.parent / "corpora" / "samples"
CORPORA = {
    "mail": ("mail.tar.gz", {}),
    "newswire": ("newswire", {"part": "train"}),
    "dialects": ("dialects.csv", {"text": "text", "label": "dialect"}),
    "reviews": ("reviews.csv", {"text": "text", "label": "label"}),
    "questions": ("questions.jsonl", {}),
}
KERNELS = {
    "spectrum 4": Spectrum(4),
    "spectrum 1-5 log idf": Spectrum((1, 5), "log", idf=True),
    "spectrum 3-8 presence": Spectrum((3, 8), "presence"),
    "spectrum 1-7 intersection": Spectrum((1, 7), "intersection"),
    "spectrum 2 raw": Spectrum(2, normalised=False),
    "edit": EditDistance(0.05),
    "edit relative": EditDistance(3.0, relative=True),
    "gap 3": GapWeighted(3, 0.5),
    "gap blend": GapWeighted(4, 0.3, weights=(0.0, 1.0, 1.0, 1.0)),
}
TEXT = {"normalise": "unicode", "punctuation": True, "max_length": 400}
SOLVER = {"tol": 1e-3, "duality_gap": None, "max_iter": -1, "device": "cpu"}


def models():
    """Yield (name, fitted model, texts to decide)."""
    for corpus_name, (file, columns) in CORPORA.items():
        corpus = read_corpus(SAMPLES / file, **columns)
        corpus = corpus.subset(i for i, label in enumerate(corpus.labels) if label != ())
        labels = [label[0] if isinstance(label, tuple) else label for label in corpus.labels]
        for kernel_name, kernel in KERNELS.items():
            for strategy in ("ovo", "ovr", "crammer-singer"):
                model = SVC(
                    kernel,
                    10,
                    multiclass=strategy,
                    class_weight=None,
                    compute=Compute(memory=None),
                    **TEXT,
                    **SOLVER,
                )
                yield (
                    f"{corpus_name}, {kernel_name}, {strategy}",
                    model.fit(corpus.texts, labels),
                    corpus.texts,
                )
        model = SVC(Spectrum(4), 10, multiclass="ovr", compute=Compute(memory=60_000), **TEXT, **SOLVER)
        yield f"{corpus_name}, rows on demand", model.fit(corpus.texts, labels), corpus.texts
        model = OneClassSVM(GapWeighted(3, 0.5), 0.2, **TEXT, **SOLVER)
        yield f"{corpus_name}, one class", model.fit(corpus.texts), corpus.texts
    essays = read_corpus(SAMPLES / "essays.tsv", text="essay", target="score")
    for kernel_name, kernel in KERNELS.items():
        model = SVR(kernel, 10, epsilon=0.1, **TEXT, **SOLVER).fit(essays.texts, essays.targets)
        yield f"essays, {kernel_name}", model, essays.texts


def values(model, texts):
    """Decision values; the weight vector of a spectrum machine may be summed in another order."""
    return model.predict(texts) if isinstance(model, SVR) else model.decision_function(texts)


def digests() -> dict[str, dict[str, object]]:
    found = {}
    for name, model, texts in models():
        documents = model.support_documents_
        arrays = (model.dual_coef_, model.intercept_, model.support_, documents.codes, documents.offsets)
        parts = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        found[name] = {
            "model": hashlib.sha256(parts).hexdigest(),
            "values": np.asarray(values(model, texts[:20])).ravel().tolist(),
        }
    return found


def main() -> int:
    found = digests()
    if len(sys.argv) < 2:
        print(json.dumps(found))
        return 0
    before = json.loads(Path(sys.argv[1]).read_text())
    changed = [name for name in before if found.get(name, {}).get("model") != before[name]["model"]]
    apart = max(
        float(np.max(np.abs(np.subtract(found[name]["values"], before[name]["values"]))))
        for name in before
        if name in found
    )
    for name in changed:
        print(f"other bits: {name}")
    same = len(before) - len(changed)
    print(f"{same} of {len(before)} models have the same bits; decision values differ by {apart:.3g}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
