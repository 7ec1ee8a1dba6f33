"""Dialects, and the substrings that mark them

The heaviest substrings of each class are a map of what the classifier has learnt: spelling and function
words, not topics.
"""

from textsvm import SVC, Spectrum, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("dialects"), text="text", label="dialect")
train, test = corpus.select("train"), corpus.select("test")
model = SVC(Spectrum((2, 5), "log", idf=True)).fit(train.texts, train.labels)
print(f"accuracy {model.score(test.texts, test.labels):.3f}")
for features in model.top_features(8):
    heaviest = max(feature.weight for feature in features.features)
    print(features.label)
    for feature in features.features:
        print(f"    {feature.text!r:24} {'#' * round(30 * feature.weight / heaviest)}")
