"""The recipes of packaging/ agree with pyproject.toml and with the documentation."""

import re
import tomllib
from pathlib import Path

import pytest

import textsvm

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DEBIAN = ROOT / "packaging" / "debian"


def without_spaces(requirements):
    return sorted(each.replace(" ", "") for each in requirements)


@pytest.fixture
def recipe():
    """The conda recipe, with the values of its context in place of their names."""
    yaml = pytest.importorskip("yaml")
    text = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text("utf-8")
    for name, value in yaml.safe_load(text)["context"].items():
        text = text.replace(f"${{{{ {name} }}}}", str(value))
    return yaml.safe_load(text)


def test_the_conda_recipe_requires_what_pyproject_requires(recipe):
    project = PROJECT["project"]
    required = [f"python{project['requires-python']}", *project["dependencies"]]
    assert without_spaces(recipe["requirements"]["run"]) == sorted(required)
    python = project["requires-python"].replace(">=", "python") + ".*"
    built = [python, "pip", *PROJECT["build-system"]["requires"]]
    assert without_spaces(recipe["requirements"]["host"]) == sorted(built)


def test_the_conda_recipe_has_the_version_and_the_commands(recipe):
    project = PROJECT["project"]
    assert recipe["package"] == {"name": project["name"], "version": textsvm.__version__}
    commands = [f"{name} = {function}" for name, function in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands
    assert recipe["about"]["summary"] == project["description"]
    assert recipe["about"]["license"] == project["license"]
    # The source is the checkout.
    assert (ROOT / "packaging" / "conda" / recipe["source"]["path"]).resolve() == ROOT


def test_the_debian_package_has_the_version_and_the_commands():
    assert (DEBIAN / "changelog").read_text("utf-8").startswith(f"textsvm ({textsvm.__version__}) ")
    links = (DEBIAN / "textsvm.links").read_text("utf-8").split()
    names = list(PROJECT["project"]["scripts"])
    commands = [part for name in names for part in (f"usr/lib/textsvm/bin/{name}", f"usr/bin/{name}")]
    pages = [f"usr/share/man/man1/{name}.1" for name in names]
    assert sorted(links) == sorted([*commands, *pages[1:], pages[0]])


def test_messages_name_packages_that_can_be_installed():
    for path in Path(textsvm.__file__).parent.rglob("*.py"):
        assert not re.search(r"pip install \W*textsvm", path.read_text("utf-8")), path
