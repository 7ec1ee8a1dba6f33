"""docs/vectors.md, run as it stands."""

import re

import pages
import pytest

PAGE = pages.read("docs/vectors.md")


@pytest.mark.slow
def test_page(tmp_path):
    names = pages.run(PAGE, tmp_path, "vectors.md", python_first=True)
    assert names["search"].best_score > 0.6
    both, tickets = names["both"], names["tickets"]
    assert both.score(tickets, tickets["queue"]) > 0.9
    assert names["model"].n_features_in_ == 16
    assert len(pages.commands(PAGE)) >= 7
    assert (tmp_path / "tickets.textsvm").exists()


def test_kernels_are_in_its_table():
    from textsvm.kernels import KERNELS

    of_vectors = {name for name in KERNELS if KERNELS[name]().structure.reads_vectors}
    table = PAGE[PAGE.index("| kernel |") : PAGE.index('`gamma="scale"`, the default')]
    assert of_vectors == set(re.findall(r"\| `([a-z]+)[:`]", table))
