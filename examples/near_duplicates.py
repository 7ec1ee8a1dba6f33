"""Near-duplicates and misspelt names

The search is exact: no pair within the edit distance, or above the similarity, is missed. Near-duplicates
in both parts of a corpus make a test too optimistic, so look for them before you split.
"""

from textsvm import neighbours, read_corpus
from textsvm.readers import sample

names = ["Jon Smith", "John Smith", "Joan Smyth", "Mary Jones", "Marie Jones", "J. Smith", "Kim Lee"]
pairs = neighbours(names, within=2)
for a, b, distance in zip(pairs.rows, pairs.columns, pairs.distances, strict=True):
    print(f"{distance}  {names[a]} / {names[b]}")

texts = read_corpus(sample("messages"), text="text", label="label").texts
pairs = neighbours(texts, at_least=0.75)
print(f"{len(pairs.rows)} pairs of {len(texts)} messages have a similarity of at least 0.75")
