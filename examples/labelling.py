"""A labelling loop

The machine asks for the label of the text that it is least sure of, and learns it at once; here the known
labels answer. This simple strategy soon loses its lead over texts drawn at random. `textsvm label` has
better strategies, a page to answer on, and a test part.
"""

import numpy as np

from textsvm import OnlineSVC, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("messages"), text="text", label="label")
texts, labels = np.array(corpus.texts, dtype=object), np.array(corpus.labels)
pool, test = np.arange(0, 600), np.arange(600, 800)
asked = [*np.flatnonzero(labels[:600] == "ham")[:2], *np.flatnonzero(labels[:600] == "spam")[:2]]
model = OnlineSVC().partial_fit(texts[asked], labels[asked])
drawn = list(np.random.default_rng(0).permutation(pool))
while len(asked) < 64:
    rest = np.setdiff1d(pool, asked)
    asked.append(rest[np.argmin(abs(model.decision_function(texts[rest])))])
    model.partial_fit(texts[asked[-1:]], labels[asked[-1:]])
    if len(asked) in (8, 16, 32, 64):
        chance = OnlineSVC().partial_fit(texts[drawn[: len(asked)]], labels[drawn[: len(asked)]])
        ours, theirs = (np.mean(learner.predict(texts[test]) == labels[test]) for learner in (model, chance))
        print(f"{len(asked)} labels: accuracy {ours:.3f}; of texts drawn at random {theirs:.3f}")
