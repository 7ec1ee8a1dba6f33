"""DNA: which letters bind

Gapped k-mers on both strands separate bound from free sites. The model shows the motif: the k-mers with the
largest scores, and the letters of a site whose change would lower its decision value most.
"""

import numpy as np

from textsvm import SVC, GappedKmers, kmer_scores, mutation_scores, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("sites"))
train, test = corpus.select("train"), corpus.select("test")
model = SVC(GappedKmers(g=9, m=3, canonical=True)).fit(train.texts, train.labels)
print(f"accuracy {model.score(test.texts, test.labels):.3f}")

scored = kmer_scores(model, 9, positive="bound")
print("heaviest 9-mers:", *scored.kmers[scored.top(6)])
sign = 1 if model.classes_[1] == "bound" else -1
best = test.texts[np.argmax(sign * model.decision_function(test.texts))]
[changes] = mutation_scores(model, [best], positive="bound")
loss = -np.min(np.nanmin(changes.scores, axis=0), axis=1)
begin = int(np.argmax(np.convolve(loss, np.ones(12), "valid")))
for place in range(begin, begin + 12):
    print(f"{place:4} {best[place]} {'#' * round(30 * loss[place] / max(loss))}")
