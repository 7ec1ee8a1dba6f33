"""What is released: one version, metadata that agree, types that users' type checkers accept."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import textsvm

ROOT = Path(__file__).resolve().parent.parent
BESIDE = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
#: Programs that a type checker must find something wrong with, or it sees no types.
WRONG = [
    "textsvm.SVC(C='one')",
    "textsvm.evaluate(['a'], ['a'], max_length=3)",
    "a: int = textsvm.Spectrum(4)(['a'])",
    "b: str = textsvm.SVC().predict(['a'])",
]


def project():
    return pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_version_is_in_one_place_and_in_the_changelog():
    assert project()["dynamic"] == ["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert changelog.split("\n## ")[1].split()[0] == textsvm.__version__


def test_metadata():
    found = project()
    assert "urls" not in found  # until the project has a home
    versions = {text.rpartition(" ")[2] for text in found["classifiers"] if "Python :: 3." in text}
    assert found["requires-python"] == ">=3.11"  # no upper bound
    assert versions == {"3.11", "3.12", "3.13", "3.14"}
    assert "Typing :: Typed" in found["classifiers"]
    assert (ROOT / "textsvm" / "py.typed").is_file()


def test_nothing_names_an_address_of_the_project():
    """It has neither a home nor a package in a registry: installing is from a checkout or a wheel."""
    patterns = (
        r"pip install [^`\n&]*(?<![\w/.-])textsvm(?![\w/*-])",
        r"""(?<![\w./])textsvm\[\w+\]["']""",
        r"https?://[^\s)\"'`]*textsvm",
        r"img\.shields\.io|badge\.svg",
    )
    wrong = ("pip install textsvm", 'install "textsvm[serve]"', "https://a.org/textsvm", "a/badge.svg")
    assert all(map(re.search, patterns, wrong))
    named = re.compile("|".join(patterns))
    files = [ROOT / "mkdocs.yml", ROOT / "CITATION.cff"]
    files += [*ROOT.glob("*.md"), *ROOT.glob(".github/**/*.*"), *ROOT.glob("docs/**/*.md")]
    files += ROOT.glob("textsvm/**/*.py")
    assert {path.name for path in files} >= {"README.md", "SECURITY.md", "serve.md", "__init__.py"}
    found = {path.relative_to(ROOT).as_posix(): named.findall(path.read_text("utf-8")) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


def test_every_job_of_the_workflows_is_one_script():
    """The scripts also run outside of GitHub. Actions are pinned to commits."""
    yaml = pytest.importorskip("yaml")
    scripts, used = set(), set()
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items():
            commands = [step["run"].split()[0] for step in job.get("steps", []) if "run" in step]
            assert len(commands) <= 1, (path.name, name)
            scripts.update(commands)
            used.update(step["uses"] for step in job.get("steps", []) if "uses" in step)
    jobs = ("run", "interpreter", "docs", "release", "kernels", "nightly", "oldest", "newest", "debian")
    assert scripts == {f".ci/{job}" for job in jobs}
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)
    assert [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each)] == []


@pytest.mark.slow
def test_slow_tests_that_a_change_concerns():
    """A line each. Without a change there is no line: an empty line would be the path of all tests."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    program = [sys.executable, ROOT / ".ci" / "concerned.py", "HEAD"]
    assert subprocess.run(program, capture_output=True, check=True).stdout == b""
    concerned = runpy.run_path(str(program[1]))["concerned"]
    changed = ["kernels_cu/gap.cu", "tests/test_release.py", "tests/test_gone.py"]
    assert concerned(changed) == ["tests/test_kernels_cu.py", "tests/test_release.py"]
    assert "tests/test_smo.py" in concerned(["textsvm/solvers/smo_loop.py"])
    assert "tests/test_metrics.py" not in concerned(["textsvm/solvers/smo_loop.py"])


@pytest.mark.slow
def test_a_change_in_any_folder_starts_slow_tests():
    concerned = runpy.run_path(str(ROOT / ".ci" / "concerned.py"))["concerned"]
    folders = {path.parent for path in (ROOT / "textsvm").rglob("[!_]*.py")}
    files = {folder: [str(path.relative_to(ROOT)) for path in folder.glob("*.py")] for folder in folders}
    assert [folder for folder in folders if not concerned(files[folder])] == []


def test_the_job_of_the_oldest_versions_has_the_lower_bounds():
    """`.ci/oldest --lock` writes them; every dependency has a bound, and that is the version."""
    found = project()
    pinned = dict(
        re.findall(r"^([\w.-]+)==([\d.]+)$", (ROOT / ".ci" / "oldest.txt").read_text("utf-8"), re.M)
    )
    extras = found["optional-dependencies"]
    wanted = [*found["dependencies"], *(each for each in extras["dev"] if each.startswith("polars"))]
    for extra in ("test", "dask", "encoders", "excel", "mail", "onnx", "serve"):
        wanted += extras[extra]
    bounds = [re.fullmatch(r"([\w.-]+)>=([\d.]+)(;.*)?", each) for each in wanted]
    assert [each for each, bound in zip(wanted, bounds, strict=True) if not bound] == [
        "textsvm[dask,encoders,excel,mail,onnx,serve]"
    ]
    for bound in filter(None, bounds):
        assert f"{pinned[bound[1].replace('.', '-')]}.".startswith(f"{bound[2]}."), bound[0]


def test_the_citation():
    cited = pytest.importorskip("yaml").safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert cited["license"] == project()["license"]
    assert "repository-code" not in cited  # until the project has a home
    papers = [" ".join(author["family-names"] for author in each["authors"]) for each in cited["references"]]
    assert [names.split()[0] for names in papers] == ["Shi", "Cotter", "Catanzaro", "Wen"]


def test_the_paper():
    """Every reference is cited and listed once, every source of a figure exists, and CITATION.cff agrees."""
    yaml = pytest.importorskip("yaml")
    _, head, text = (ROOT / "paper.md").read_text("utf-8").split("---\n", 2)
    listed = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper.bib").read_text("utf-8"), re.M)
    assert sorted(set(re.findall(r"@(\w+)", text))) == sorted(listed)
    sources = re.findall(r"`(reports/[^`]+)`", text)
    assert len(sources) > 5
    assert [each for each in sources if not (ROOT / each).is_file()] == []
    assert 750 < len(text.split()) < 1750  # what JOSS asks
    paper, cited = yaml.safe_load(head), yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert paper["title"] == cited["title"]
    assert [each["name"] for each in paper["authors"]] == [each["name"] for each in cited["authors"]]
    dois = {each["doi"] for each in cited["references"] if each["authors"][0]["family-names"] == "Shi"}
    assert dois <= set(re.findall(r"doi += \{(.+)\}", (ROOT / "paper.bib").read_text("utf-8")))


def checker():
    """Pyright, which fetches the rest of itself when it is first called; where it cannot, mypy."""
    pyright = shutil.which("pyright", path=BESIDE)
    if pyright and not subprocess.run([pyright, "--version"], capture_output=True, timeout=100).returncode:
        return [pyright, "--pythonpath", sys.executable, "--project", "."]
    mypy = shutil.which("mypy", path=BESIDE)
    if mypy is None:
        pytest.skip("neither pyright nor mypy is installed")
    # What its types come from is not judged here; the linters' cache is of other options.
    return [mypy, "--strict", "--follow-imports=silent", "--cache-dir", os.devnull, "."]


@pytest.mark.slow
def test_users_programs_pass_strict_type_checkers(tmp_path):
    """In a folder of its own, where the settings of this project are not found, as in a user's."""
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    shutil.copy(ROOT / "tests" / "user_code.py", tmp_path / "right.py")
    (tmp_path / "wrong.py").write_text("\n".join(["import textsvm", *WRONG, ""]))
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    run = subprocess.run(checker(), cwd=tmp_path, env=environment, capture_output=True, text=True)
    found = re.findall(r"(right|wrong)\.py:(\d+).*error", run.stdout)
    assert {name for name, _ in found} == {"wrong"}, run.stdout + run.stderr
    assert {int(line) for _, line in found} == set(range(2, 2 + len(WRONG))), run.stdout
