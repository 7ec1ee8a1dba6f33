"""textsvm tune: grids on files."""

import json

import numpy as np
from command import report, run
from loading import load

from textsvm import cli
from textsvm.readers import sample

SHORT = ["--max-length", "80"]


def test_tune_finds_and_writes(tmp_path):
    model = tmp_path / "best"
    options = ["--kernel", "gap,spectrum", "--p", "3", "--decay", "0.3,0.6", "-C", "1,10,1", *SHORT]
    wanted = ["--metric", "macro_f1", "--nested", "3", "--folds", "3", "-o", model]
    found = report("tune", sample("mail"), *options, *wanted)
    assert found["metric"] == "macro_f1"
    assert len(found["table"]) == 2 * 2 + 2
    chosen = found["best_params"]
    assert chosen["kernel"]["name"] in ("gap", "spectrum")
    assert len(found["nested"]["params"]) == 3
    assert found["nested"]["mean"]["macro_f1"] > 0.6
    fitted = load(model)
    assert chosen["C"] == fitted.C
    assert fitted.kernel_.get_params() == {k: v for k, v in chosen["kernel"].items() if k != "name"}
    assert report("evaluate", model, sample("mail"))["accuracy"] > 0.85


def test_tune_has_a_grid_of_its_own():
    *rows, default = report("tune", sample("questions"))["table"]
    settings = {(row["params"]["kernel"]["p"], row["params"]["C"]) for row in rows}
    assert settings == {(p, C) for p in (3, 4, 5) for C in (1, 10, 100)}
    assert default["params"] == {"kernel": "auto", "C": 1}


def test_no_setting_better_than_the_default_is_an_answer(tmp_path):
    done = run("tune", sample("questions"), "-C", "1", "-o", tmp_path / "m")
    assert b"no setting was better than the default (auto) by more than a standard error" in done.stderr
    assert "best                      auto, C 1" in done.stdout.decode()
    report("train", sample("questions"), "-o", tmp_path / "default")
    tuned, default = (load(tmp_path / name) for name in ("m", "default"))
    np.testing.assert_array_equal(tuned.dual_coef_, default.dual_coef_)
    named = report("tune", sample("questions"), "-C", "1", "--kernel", "gap:3", "--kernel", "auto")
    assert [str(row["params"]["kernel"])[:4] for row in named["table"]][-1] == "auto"
    assert "auto" not in json.dumps(report("tune", sample("questions"), "-C", "1", "--kernel", "gap:3"))


def test_a_search_that_is_interrupted_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    from textsvm.selection.search import GridSearch

    def tune(*options):
        command = ["textsvm", "tune", sample("questions"), "--p", "2,3", "-C", "1,10", "-o", tmp_path / "m"]
        monkeypatch.setattr("sys.argv", [*map(str, command), *map(str, options)])
        return cli.console.main(cli.app_of()), *capsys.readouterr()

    tried, run_one = [], GridSearch.run

    def until_ctrl_c(*given):
        tried.append(1)
        if len(tried) == 2:
            raise KeyboardInterrupt
        run_one(*given)

    table = tmp_path / "m.tuning"
    with monkeypatch.context() as patch:
        patch.setattr(GridSearch, "run", until_ctrl_c)
        code, _, said = tune()
        assert code == 130
    assert f"2 settings tried so far; continue with --resume {table}" in said
    assert "holds the settings of an interrupted search" in tune()[2]
    code, shown, said = tune("--resume", table, "--json")
    assert code == 0, said
    assert table.exists()  # it was named
    table.unlink()
    again = json.loads(tune("--json")[1])
    assert [row["mean"] for row in json.loads(shown)["table"]] == [row["mean"] for row in again["table"]]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    (tmp_path / "mine").write_text("years of work")
    assert "is there and is not a table of textsvm tune" in tune("--resume", tmp_path / "mine")[2]
    assert "would replace the corpus" in tune("--resume", sample("questions"))[2]
