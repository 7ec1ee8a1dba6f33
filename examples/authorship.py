"""Authorship: is a text by a known writer?

Presence of substrings of 3 to 8 characters, with case and punctuation, is a kernel of style. A one-class
machine learns the texts of one group, which stands for a writer here, and accepts few texts of others; that
it also rejects many texts of its group is the price of having seen no others.
"""

import numpy as np

from textsvm import SVC, OneClassSVM, Spectrum, cross_validate, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("dialects"), text="text", label="dialect")
style = Spectrum((3, 8), "presence", keep_case=True)
scores = cross_validate(SVC(style), corpus.texts, corpus.labels, cv=3)
print(f"which of {len(set(corpus.labels))}: accuracy {scores.pooled['accuracy']:.3f}")

known = [text for text, label in zip(corpus.texts, corpus.labels, strict=True) if label == "islands"]
others = [text for text, label in zip(corpus.texts, corpus.labels, strict=True) if label != "islands"]
model = OneClassSVM(style, nu=0.1).fit(known[::2])
for name, texts in (("new texts of the same group", known[1::2]), ("texts of others", others)):
    print(f"{name}: {np.mean(model.predict(texts) == 1):.0%} accepted")
