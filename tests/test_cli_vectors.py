"""The command line on vectors (LIBSVM's format, .npy, .npz) and on columns of texts and numbers."""

import bz2
import json

import numpy as np
import pytest
from command import fails, printed_rows, report, run, works
from loading import load
from scipy.sparse import csr_matrix, save_npz
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.svm import SVC as TheirSVC

GAUSSIAN = ["--kernel", "gaussian:gamma=0.3", "--device", "cpu"]
ON = ["--text", "subject", "--text", "body", "--numbers", "hour,size", "--device", "cpu"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Vectors of two classes in every format, and a table of mails with embeddings beside it."""
    folder, rng = tmp_path_factory.mktemp("vectors"), np.random.default_rng(0)
    X = rng.normal(size=(80, 4)).round(3)
    X[np.abs(X) < 0.4] = 0
    y = np.where(X[:, 0] + 0.4 * rng.normal(size=80) > 0, 1, -1)
    dump_svmlight_file(X[:60], y[:60], str(folder / "train.svm"), zero_based=False)
    (folder / "train.bz2").write_bytes(bz2.compress((folder / "train.svm").read_bytes()))
    dump_svmlight_file(X[60:, :3], y[60:], str(folder / "test.svm"), zero_based=False)
    np.save(folder / "x.npy", X[:60])
    (folder / "y.txt").write_text("".join(f"{each}\n" for each in y[:60]))
    np.savez(folder / "x.npz", X=X[:60], y=y[:60])
    save_npz(folder / "bare.npz", csr_matrix(X[:60]))
    for name, n in (("mails", 60), ("more", 20)):
        spam = rng.random(n) < 0.5
        words = [["cheap pills", "win cash"], ["team lunch", "a report"]]
        lines = ["label,subject,body,hour,size"]
        for i, s in enumerate(spam):
            label, subject = ("spam", words[0][i % 2]) if s else ("ham", words[1][i % 2])
            lines.append(f"{label},{subject} {i},hello {i % 7},{rng.integers(24)},{s + 0.5}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        np.save(folder / f"{name}.npy", rng.normal(size=(n, 3)).astype(np.float32))
    return folder


@pytest.fixture(scope="module")
def model(here):
    """Trained on vectors."""
    trained = report("train", here / "train.svm", *GAUSSIAN, "-C", "2", "-o", here / "m.textsvm")
    assert trained["kernel_spelled"] == "gaussian:gamma=0.3"
    return here / "m.textsvm"


@pytest.fixture(scope="module")
def of_columns(here):
    """Trained on columns, with the default kernel."""
    return here / "c.textsvm", works("train", here / "mails.csv", *ON, "-o", here / "c.textsvm")


def test_vectors_are_trained_on_and_predicted(here, model):
    X, y = load_svmlight_file(str(here / "train.svm"))
    test, _ = load_svmlight_file(str(here / "test.svm"))
    judge = TheirSVC(gamma=0.3, C=2).fit(X.toarray(), y)
    test = np.pad(test.toarray(), [(0, 0), (0, 1)])
    rows = printed_rows("predict", model, here / "test.svm")
    expected = judge.decision_function(test)
    np.testing.assert_allclose([row["decision"] for row in rows], expected, atol=3e-3)
    assert [row["id"] for row in rows] == [str(i) for i in range(1, 21)]
    sure = np.abs(expected) > 5e-3
    assert (np.array([float(row["label"]) for row in rows]) == judge.predict(test))[sure].all()


def test_files_that_end_in_other_columns_are_read(here, model):
    labels = ["--labels", here / "y.txt"]
    report("train", here / "x.npy", *labels, *GAUSSIAN, "-C", "2", "-o", here / "dense.textsvm")
    narrow = [printed_rows("predict", path, here / "test.svm") for path in (model, here / "dense.textsvm")]
    np.testing.assert_allclose(*[[row["decision"] for row in rows] for rows in narrow], atol=5e-3)
    (here / "wide.svm").write_text("1 1:1 9:2\n-1 2:1\n")
    assert len(printed_rows("predict", model, here / "wide.svm")) == 2
    assert "features" in fails("predict", here / "dense.textsvm", here / "wide.svm")
    (here / "beside.svm").write_text("".join(f"0 {i % 30 + 1}:1\n" for i in range(60)))
    (here / "narrow.svm").write_text("0 1:1 2:1\n" * 20)
    beside = ["--vectors", here / "beside.svm", "-o", here / "b.textsvm"]
    report("train", here / "mails.csv", "--text", "body", *beside)
    printed_rows("predict", here / "b.textsvm", here / "more.csv", "--vectors", here / "narrow.svm")


def test_vectors_come_through_a_pipe(here, model):
    direct = run("predict", model, here / "test.svm")
    piped = run("predict", model, "-", stdin=bz2.compress((here / "test.svm").read_bytes()))
    assert piped.stdout == direct.stdout
    assert len(printed_rows("predict", model, stdin=(here / "x.npy").read_bytes())) == 60


@pytest.mark.parametrize("name", ["train.bz2", "x.npz", "x.npy"])
def test_every_format_gives_the_same_model(name, here, model):
    labels = ["--labels", here / "y.txt"] if name == "x.npy" else []
    report("train", here / name, *labels, *GAUSSIAN, "-C", "2", "-o", here / "other.textsvm")
    one, other = load(model), load(here / "other.textsvm")
    X = np.load(here / "x.npy")
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=5e-3)
    assert other.classes_.tolist() == ["-1", "1"]


def test_evaluate_cv_tune_compare_and_corpus(here, model):
    assert report("evaluate", model, here / "test.svm")["accuracy"] > 0.7
    assert report("cv", here / "train.svm", *GAUSSIAN, "--folds", "3")["n"] == 60
    tuned = report(
        "tune", here / "train.svm", "--kernel", "gaussian", "--gamma", "0.1,0.3", "-C", "1", "--folds", "3"
    )
    assert len(tuned["table"]) == 2
    compared = report("compare", here / "train.svm", "--kernel", "gaussian", "--kernel", "linear")
    assert [each["name"] for each in compared["classifiers"]][2:] == ["gaussian", "linear"]
    X = np.load(here / "x.npy")
    found = report("corpus", here / "train.svm")
    assert (found["n"], found["format"], found["lengths"]) == (60, "libsvm", None)
    assert found["vectors"]["d"] == 4
    assert found["vectors"]["non_zeros"] == np.count_nonzero(X)
    shown = run("corpus", here / "x.npy").stdout.decode()
    assert "4 columns, dense, float64" in shown
    assert f"{np.count_nonzero(X)}, {100 * np.mean(X != 0):.3g} %" in shown


def test_a_report_of_vectors(here, model):
    works("evaluate", model, here / "test.svm", "--report", here / "r.html")
    assert "Confusion matrix" in (here / "r.html").read_text()


def test_regression_and_one_class_of_vectors(here):
    trained = report(
        "train", here / "train.svm", "--regress", "label", "--kernel", "linear", "-o", here / "r.textsvm"
    )
    assert trained["estimator"] == "SVR"
    assert "r2" in report("evaluate", here / "r.textsvm", here / "train.svm")
    trained = report("train", here / "train.svm", "--one-class", "1", "-o", here / "o.textsvm")
    assert trained["kernel_spelled"] == "gaussian:gamma=scale"
    X = np.load(here / "x.npy")
    np.save(here / "t.npy", X[:, 1])
    report(
        "train", here / "x.npy", "--labels", here / "t.npy", "--regress", "label", "-o", here / "s.textsvm"
    )
    assert np.corrcoef(load(here / "s.textsvm").predict(X), X[:, 1])[0, 1] > 0.9
    (here / "nan.txt").write_text("1\n2\nnan\n" + "1\n" * (len(X) - 3), "utf-8")
    result = run(
        "train", here / "x.npy", "--labels", here / "nan.txt", "--regress", "label", "-o", here / "n"
    )
    assert "nan.txt, line 3: the target is 'nan'" in " ".join(result.stderr.decode().split())


def test_no_kernel_named_is_a_gaussian_one_and_said(here):
    result = works("train", here / "train.svm", "-o", here / "d.textsvm")
    assert b"note: the default kernel for vectors is used: gaussian" in result.stderr
    assert load(here / "d.textsvm").kernel_.name == "gaussian"


def test_columns_have_a_sum_of_kernels(here, of_columns):
    path, trained = of_columns
    notes = trained.stderr.decode()
    assert "note: the joined text of subject" in notes
    assert all(f"{name} with weight 0" in notes for name in ("subject", "body", "hour", "size"))
    assert len(printed_rows("predict", path, here / "more.csv")) == 20
    assert report("evaluate", path, here / "more.csv")["accuracy"] > 0.9
    fast = "spectrum:1-5,log,idf"
    spelled = f"subject={fast}+body={fast}+hour,size=gaussian"
    report("train", here / "mails.csv", "--kernel", spelled, "--device", "cpu", "-o", here / "s.textsvm")
    assert report("evaluate", here / "s.textsvm", here / "more.csv")["accuracy"] > 0.9


def test_columns_are_explained_folded_and_described(here, of_columns):
    path, _ = of_columns
    explained = run("explain", path, here / "more.csv", "--json")
    assert b"subject" in explained.stdout, explained.stderr.decode()
    assert report("cv", here / "mails.csv", *ON, "--folds", "3")["n"] == 60
    kernel = "subject=spectrum:2+hour,size=gaussian"
    assert report("compare", here / "mails.csv", "--kernel", kernel)["classifiers"][2]["name"] == kernel
    assert report("corpus", here / "mails.csv", *ON[:4])["columns"]["body"]["lengths"]["min"] == 7
    grid = ["--kernel", "subject=spectrum:2+size=gaussian", "--kernel", "subject=spectrum:3", "-C", "1"]
    assert len(report("tune", here / "mails.csv", *grid, "--folds", "3")["table"]) == 2


def test_vectors_beside_texts(here):
    beside = ["--vectors", here / "mails.npy"]
    kernel = ["--kernel", "subject=spectrum:1-5,log,idf+vectors=gaussian"]
    report("train", here / "mails.csv", *kernel, *beside, "-o", here / "v.textsvm")
    predict = ["predict", here / "v.textsvm", here / "more.csv"]
    assert len(printed_rows(*predict, "--vectors", here / "more.npy")) == 20
    assert "name their file with --vectors" in fails(*predict)
    assert "60 vectors and" in fails(*predict, "--vectors", here / "mails.npy")
    own = report("train", here / "mails.csv", "--text", "2", *beside, "-o", here / "u.textsvm")
    assert "vectors with weight 0" in own["chosen"]


def test_a_row_whose_text_columns_are_all_empty_gets_a_reason(here, of_columns, tmp_path):
    model, table = of_columns[0], tmp_path / "t.csv"
    table.write_text("label,subject,body,hour,size\nspam,,,3,1.5\nham,, \u200b,3,0.5\nham,lunch,,3,0.5\n")
    result = run("predict", model, table)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["label"] is None for row in rows] == [True, True, False]
    assert rows[0]["reason"] == "line 2: its 'subject' and 'body' are empty"
    assert result.returncode == 1
    assert b"2 of the rows got no label" in result.stderr
    for command in (["evaluate", model, table], ["train", table, *ON, "-o", tmp_path / "n.textsvm"]):
        assert "2 of the 3 rows of t.csv have no text (lines 2, 3)" in fails(*command)
    assert b"1 of 3 rows" in run("evaluate", model, table, "--skip-invalid").stderr


def test_a_cell_that_is_no_number_leaves_its_row_without_a_label(here, tmp_path):
    model, table = tmp_path / "m.textsvm", tmp_path / "t.csv"
    kernel = ["--kernel", "subject=spectrum:3+hour,size=gaussian"]
    report("train", here / "mails.csv", *ON, *kernel, "-o", model)
    table.write_text("label,subject,body,hour,size\nspam,win,cash,5,five\nham,lunch,now,3,0.5\n")
    result = run("predict", model, table)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows[0]["reason"] == "line 2: its number 'size' is 'five', which is not a finite number"
    assert (rows[1]["label"], result.returncode) == ("ham", 1)
    assert len(printed_rows("predict", model, table, "--skip-invalid")) == 1
    said = fails("train", table, *ON, "-o", tmp_path / "n.textsvm")
    assert "1 of the 2 rows of t.csv has no number (line 2): its number 'size' is 'five'" in said
