"""A spam filter that says "unsure"

Mails are read from an archive with a folder for each class. A calibrated classifier gives probabilities,
and between 0.2 and 0.8 the program leaves the decision to a person.
"""

from textsvm import SVC, CalibratedSVC, explain, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("mail"))
texts, labels = corpus.texts, corpus.labels
model = CalibratedSVC(SVC()).fit(texts[::2], labels[::2])
spam = model.predict_proba(texts[1::2])[:, list(model.classes_).index("spam")]
sure = (spam < 0.2) | (spam > 0.8)
right = (spam > 0.5) == [label == "spam" for label in labels[1::2]]
print(f"{sum(sure)} of {len(sure)} mails are decided, {sum(right & sure)} of them rightly")

[why] = explain(model, ["Subject: Order now\n\nA free prize, 90% off!!!"], positive="spam")
print(why.prediction, [part.text for part in why.merged[:5]])
