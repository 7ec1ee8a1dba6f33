"""Synthetic novels: authors differ a little in common words, books a lot in words of their own."""

import numpy as np

#: Common words, which all authors use at rates of their own.
COMMON = [f"{a}{b}" for a in ("al", "be", "ci", "do", "en", "fa") for b in ("n", "r", "st", "la", "mo")]


def novels(authors=4, books=5, chapters=8, seed=0, words=60):
    """Texts, authors and books of chapters; a third of the words occur in a single book."""
    random = np.random.default_rng(seed)
    texts, labels, groups = [], [], []
    for author in range(authors):
        rates = random.dirichlet(np.full(len(COMMON), 3.0))
        for book in range(books):
            names = ["".join(random.choice(list("bcdfghjklmnprstvwz"), 7)) for _ in range(6)]
            for _ in range(chapters):
                own = random.random(words) < 1 / 3
                common, peculiar = random.choice(COMMON, words, p=rates), random.choice(names, words)
                texts.append(" ".join(np.where(own, peculiar, common)))
                labels.append(f"author{author}")
                groups.append(f"author{author}/book{book}")
    return texts, labels, groups


def markers(groups=24, pieces=5, seed=0):
    """Texts, labels and groups of which only the group tells the label: folds that part groups see 100 %."""
    random = np.random.default_rng(seed)
    texts, labels, names = [], [], []
    for group in range(groups):
        words = ["".join(random.choice(list("bcdfghjklmnprstvwz"), 7)) for _ in range(6)]
        for _ in range(pieces):
            texts.append(" ".join([*random.choice(words, 20), *random.choice(COMMON, 20)]))
            labels.append(f"class{group % 2}")
            names.append(f"group{group}")
    return texts, labels, names


def table(path, texts, labels, groups):
    """A table of texts with their labels and groups; returns its options."""
    rows = zip(texts, labels, groups, strict=True)
    path.write_text("text,label,book\n" + "".join(",".join(row) + "\n" for row in rows))
    return [path, "--text", "text", "--label", "label"]
