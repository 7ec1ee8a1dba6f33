"""textsvm features: the matrix, its rows' ids and labels, and the same columns for other texts."""

import io
import json

import numpy as np
import pytest
from command import fails, report, run
from scipy.sparse import csr_matrix, load_npz

from textsvm import SpectrumFeatures
from textsvm.errors import InputError
from textsvm.estimators.features import read_features, write_features
from textsvm.readers import sample
from textsvm.readers.read import read_corpus

TABLE = ["--text", "text", "--label", "dialect"]
OPTIONS = ["--kernel", "spectrum:1-5,log,idf", "--min-df", "2", "--device", "cpu"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Training and test features of the dialects, with the options that made them."""
    folder = tmp_path_factory.mktemp("features")
    corpus = ["features", sample("dialects"), *TABLE]
    train = report(
        *corpus, "--part", "train", *OPTIONS, "-o", folder / "train.npz", "--names", folder / "names"
    )
    like = ["--like", folder / "train.npz", "--device", "cpu"]
    return folder, train, report(*corpus, "--part", "test", *like, "-o", folder / "test.npz")


def test_the_matrices_are_those_of_the_transformer(made):
    folder, train, test = made
    corpus = read_corpus(sample("dialects"), text="text", label="dialect")
    parts = [corpus.select(part=part) for part in ("train", "test")]
    model = SpectrumFeatures((1, 5), "log", True, min_df=2, device="cpu")
    expected = [model.fit_transform(parts[0].texts), model.transform(parts[1].texts)]
    for said, name, part, matrix in zip((train, test), ("train", "test"), parts, expected, strict=True):
        path = folder / f"{name}.npz"
        found = load_npz(path)
        assert type(found) is csr_matrix
        assert found.dtype == np.float32
        assert found.shape == (said["rows"], said["columns"])
        assert said["entries"] == found.nnz
        assert (found != matrix).nnz == 0
        with np.load(path, allow_pickle=False) as arrays:
            assert arrays["ids"].tolist() == part.ids
            assert arrays["labels"].tolist() == part.labels
    names = [json.loads(line) for line in (folder / "names").read_text(encoding="utf-8").splitlines()]
    assert names == model.get_feature_names_out().tolist()
    assert test["like"] == str(folder / "train.npz")
    assert test["min_df"] == train["min_df"] == 2


@pytest.mark.parametrize("weight", ["count", "intersection"])
@pytest.mark.parametrize("tokens", ["characters", "words"])
def test_columns_come_back_from_a_file(weight, tokens, tmp_path):
    texts, new = ["a b b", "b c c a", "naïve 日本 b", "\ud800 b"], ["b b b", "c \ud800", "d"]
    model = SpectrumFeatures((1, 2), weight, True, tokens=tokens, min_df=2, max_length=9, device="cpu")
    write_features(tmp_path / "x.npz", model.fit_transform(texts), {}, model)
    again = read_features(tmp_path / "x.npz").set_params(device="cpu")
    assert again.get_params() == model.get_params()
    assert (again.transform(new) != model.transform(new)).nnz == 0
    np.testing.assert_array_equal(again.get_feature_names_out(), model.get_feature_names_out())


def test_numbers_several_labels_and_none(tmp_path):
    path = tmp_path / "x.npz"
    report("features", sample("essays"), "--text", "essay", "--regress", "score", "-o", path)
    scores = read_corpus(sample("essays"), text="essay", target="score").targets
    assert np.load(path)["labels"].tolist() == scores
    report("features", sample("newswire"), "-o", path)
    expected = [";".join(each) for each in read_corpus(sample("newswire")).labels]
    assert np.load(path)["labels"].tolist() == expected
    assert any(";" in each for each in expected)
    (tmp_path / "t.csv").write_text("number,text\n1,one text\n2,another\n")
    report("features", tmp_path / "t.csv", "--text", "text", "-o", path)
    assert "labels" not in np.load(path).files


def test_to_standard_output():
    done = run("features", sample("dialects"), *TABLE, "-o", "-")
    assert load_npz(io.BytesIO(done.stdout)).shape[0] == 200
    assert b"columns" in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "-o FILE is missing"),
        (["-o", "x.npy"], 2, "must end in .npz"),
        (["-o", "x.npz", "--names", "x.npz"], 2, "must be different files"),
        (["-o", "x.npz", "--kernel", "gap"], 2, "one spectrum kernel"),
        (["-o", "x.npz", "--kernel", "spectrum:2+words:1"], 2, "one spectrum kernel"),
        (["-o", "x.npz", "--kernel", "spectrum:odds"], 2, "odds needs classes"),
        (["-o", "x.npz", "--kernel", "spectrum,gap"], 2, "--kernel names 2 kernels"),
        (["-o", "x.npz", "--min-df", "many"], 2, "--min-df must be a number, got many"),
        (["-o", "x.npz", "--min-df", "0"], 2, "--min-df 0 must be"),
        (["-o", "x.npz", "--min-df", "nan"], 2, "--min-df nan must be"),
        (["-o", "x.npz", "--min-df", "201"], 1, "lower min_df"),
        (["-o", "x.npz", "--kernel", "spectrum:9999"], 1, "shorter than p = 9999"),
        (["-o", "x.npz", "--like", "none.npz"], 2, "cannot read none.npz"),
        (["-o", "x.npz", "--like", sample("dialects")], 2, "not a matrix of features"),
    ],
)
def test_a_sentence_about_what_cannot_be(options, code, message, tmp_path):
    said = fails("features", sample("dialects"), *TABLE, *options, code=code, cwd=tmp_path)
    assert message in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "option", [["--kernel", "spectrum:3"], ["--min-df", "1"], ["--max-length", "9"], ["--drop-punctuation"]]
)
def test_options_do_not_go_with_like(option, made, tmp_path):
    like = ["--like", made[0] / "train.npz", "-o", tmp_path / "x.npz"]
    message = fails("features", sample("dialects"), *TABLE, *like, *option, code=2)
    assert f"{option[0]} does not go with --like" in message


def test_a_damaged_file_is_told(made, tmp_path):
    with pytest.raises(InputError, match="has a matrix without columns"):
        read_features(made[0] / "test.npz")
    with np.load(made[0] / "train.npz") as file:
        arrays = dict(file)
    about = json.loads(str(arrays["columns.about"]))

    def refused(match="x.npz", **changed):
        with open(tmp_path / "x.npz", "wb") as stream:
            np.savez(stream, **{name: a for name, a in (arrays | changed).items() if a is not None})
        with pytest.raises(InputError, match=match):
            read_features(tmp_path / "x.npz")

    refused("newer version", **{"columns.about": np.array(json.dumps(about | {"version": 9}))})
    refused("p=0", **{"columns.about": np.array(json.dumps(about | {"p": 0}))})
    refused(**{"columns.about": np.array("{")})
    refused(**{"columns.about": np.array(json.dumps(about | {"more": 1}))})
    for name in ("widths", "df", "sizes", "alphabet", "keys_2", "keys_5"):
        refused(**{f"columns.{name}": None})
        refused(**{f"columns.{name}": arrays[f"columns.{name}"][:-1]})
        if name != "sizes":
            refused(**{f"columns.{name}": arrays[f"columns.{name}"].astype(float)})
    refused(**{"columns.widths": -arrays["columns.widths"]})
    refused(**{"columns.widths": 2 * arrays["columns.widths"]})
    whole = (made[0] / "train.npz").read_bytes()
    for size in (0, 10, len(whole) // 2):
        (tmp_path / "x.npz").write_bytes(whole[:size])
        with pytest.raises(InputError, match="damaged"):
            read_features(tmp_path / "x.npz")
