"""Essay scores

Support vector regression on the intersection kernel. Folds keep the essays of a writer together, or the
score would partly be that of the writer; agreement with the raters is measured by quadratic weighted kappa.
"""

from textsvm import SVR, Spectrum, cross_validate, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("essays"), text="essay", target="score", group="writer")
model = SVR(Spectrum((1, 5), "intersection"), C=1, epsilon=0.1)
scores = cross_validate(model, corpus.texts, corpus.targets, cv=5, groups=corpus.groups)
for name, value in scores.pooled.items():
    print(f"{name:28} {value:.3f}")
for essay, score, predicted in list(zip(corpus.texts, corpus.targets, scores.predictions, strict=True))[:3]:
    print(f"{score:.0f} given, {predicted:.1f} predicted: {essay[:60]!r}")
