"""The README's three recipes, and those of docs/recipes.md, run as they stand."""

import re

import pages
import pytest

README = pages.read("README.md")
THREE = README[README.index("## Three recipes") : README.index("## How good")]
RECIPES = pages.read("docs/recipes.md")


def test_length():
    lines = README.splitlines()
    assert len(lines) <= 130
    assert max(map(len, lines)) <= 140


def test_every_verb_is_shown():
    verbs = {re.search(r"(?<![.\w])textsvm ([a-z]+)", line)[1] for line in pages.commands(RECIPES)}
    assert verbs == {
        "train",
        "update",
        "evaluate",
        "explain",
        "predict",
        "tune",
        "cv",
        "compare",
        "corpus",
        "doubts",
        "mail",
    }


@pytest.mark.parametrize("page", ["README.md", "docs", "docs/tasks"])
def test_links_lead_to_files_and_headings(page):
    path = pages.ROOT / page
    for each in [path] if path.is_file() else path.glob("*.md"):
        text = each.read_text(encoding="utf-8")
        for place, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
            target = each.parent / place if place else each
            # The site makes these pages.
            assert target.name in ("commands.md", "examples.md") or target.exists(), (each.name, place)
            if anchor:
                headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", name).strip().lower().replace(" ", "-") for name in headings}
                assert anchor in slugs, (each.name, place, anchor)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
def test_three_recipes(tmp_path):
    folder = pages.samples(tmp_path)
    names = pages.run(THREE, folder, "README.md")
    assert "<html" in (folder / "dialect.html").read_text(encoding="utf-8")
    assert names["scores"].pooled["accuracy"] > 0.8


@pytest.mark.slow
def test_recipes(tmp_path):
    folder = pages.samples(tmp_path)
    names = pages.run(RECIPES, folder, "docs/recipes.md")
    assert "<html" in (folder / "earn.html").read_text(encoding="utf-8")
    assert names["search"].best_score > 0.8
