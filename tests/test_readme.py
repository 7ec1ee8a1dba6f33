"""The README's recipes, run as they stand."""

import re

import pages
import pytest

pytestmark = pytest.mark.slow

README = pages.read("README.md")
RECIPES = README[README.index("## Recipes") : README.index("## Which kernel")]


def test_every_verb_is_shown():
    verbs = {re.search(r"(?<![.\w])textsvm ([a-z]+)", line)[1] for line in pages.commands(RECIPES)}
    assert verbs == {
        "train",
        "evaluate",
        "explain",
        "predict",
        "tune",
        "cv",
        "compare",
        "gram",
        "features",
        "neighbours",
        "corpus",
        "doubts",
        "mail",
    }


def test_recipes(tmp_path):
    folder = pages.samples(tmp_path)
    names = pages.run(RECIPES, folder, "README.md")
    assert "<html" in (folder / "earn.html").read_text(encoding="utf-8")
    assert names["found"].best_score > 0.8
