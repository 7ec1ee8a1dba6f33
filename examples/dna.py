"""DNA: which letters bind

Gapped k-mers on both strands separate bound from free sites. The explanation of a site shows the letters that
contribute most to its decision value.
"""

import numpy as np

from textsvm import SVC, GappedKmers, explain, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("sites"))
train, test = corpus.select("train"), corpus.select("test")
model = SVC(GappedKmers(g=9, m=3, canonical=True)).fit(train.texts, train.labels)
print(f"accuracy {model.score(test.texts, test.labels):.3f}")

sign = 1 if model.classes_[1] == "bound" else -1
best = test.texts[np.argmax(sign * model.decision_function(test.texts))]
[explained] = explain(model, [best], positive="bound")
share = np.asarray(explained.symbols)
begin = int(np.argmax(np.convolve(share, np.ones(12), "valid")))
for place in range(begin, begin + 12):
    print(f"{place:4} {best[place]} {'#' * round(30 * max(share[place], 0) / max(share))}")
