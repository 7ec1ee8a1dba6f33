"""The pages of docs/ that run on the sample corpora, the notebooks and the examples, run as they stand."""

import json
from pathlib import Path

import pages
import pytest
from encoders import static_folder

pytestmark = pytest.mark.slow

DOCS = pages.ROOT / "docs"
PAGES = [DOCS / name for name in ("start.md", "choosing.md", "large.md", "coming_from.md", "vectors.md")]
PAGES += sorted((DOCS / "tasks").glob("*.md"))
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
EXAMPLES = sorted((pages.ROOT / "examples").glob("*.py"))


def name_of(path: Path):
    return path.name


# The questions and the dialects have near-copies.
@pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_page(path, tmp_path, monkeypatch):
    (package := static_folder(tmp_path / "site" / "textsvm_encoder_en")).joinpath("__init__.py").touch()
    monkeypatch.syspath_prepend(package.parent)
    pages.run(path.read_text(encoding="utf-8"), pages.samples(tmp_path), path.name)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_notebook(path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tools")
    import notebooks

    said = [said for code, _, said in notebooks.run(path) if code]
    assert all(said)


@pytest.mark.filterwarnings("ignore::textsvm.training.leakage.LeakageWarning")
@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_example(path, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(DOCS / "tools")
    import notebooks

    monkeypatch.chdir(tmp_path)
    about, source, said = notebooks.run_script(path)
    assert 2 <= len(about.splitlines()) <= 6
    assert len(source.splitlines()) <= 30  # a screen
    assert said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_notebooks_are_kept_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
