"""Every public name has an example in its docstring, and it runs as it stands."""

import doctest

import pytest

import textsvm

#: What is no function and no class.
NO_EXAMPLE = {"__version__"}
PARSER = doctest.DocTestParser()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(textsvm.__all__) - NO_EXAMPLE))
@pytest.mark.filterwarnings("ignore")
def test_the_example_of(name, tmp_path, monkeypatch, capsys):
    if name == "on_workers":
        pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    found = PARSER.get_doctest(getattr(textsvm, name).__doc__ or "", {}, name, None, 0)
    assert any(name in example.source for example in found.examples), f"textsvm.{name} has no example"
    assert doctest.DocTestRunner().run(found).failed == 0, capsys.readouterr().out
