"""Sentiment, beside a transformer's published figure

Where the meaning of words decides, a fine-tuned transformer is better: on IMDB's reviews BERT-large has
95.8 % (published), textsvm 91.2 % (tuned; docs/alternatives.md). The sample is small and easy: replace it
by your own texts. `textsvm compare` also tests whether a lead is more than chance.
"""

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from textsvm import SVC, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("reviews"), text="text", label="label")
baseline = make_pipeline(TfidfVectorizer(analyzer="char", ngram_range=(1, 5)), LinearSVC())
for name, model in (("textsvm", SVC()), ("TF-IDF + LinearSVC", baseline)):
    scores = cross_val_score(model, corpus.texts, corpus.labels, cv=5)
    print(f"{name:20} {scores.mean():.3f} +- {scores.std():.3f}")
