"""What newcomers tripped over: odd labels, narrow terminals, help texts, two sets of defaults."""

import json
import pickle
import re
from pathlib import Path

import joblib
import numpy as np
import pytest
from command import fails, report, run
from rich.cells import cell_len
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import textsvm
from textsvm import cli
from textsvm.cli import estimators, kernels, machines
from textsvm.cli.machines import ClusterOptions
from textsvm.cli.options import LearningOptions
from textsvm.errors import InputError
from textsvm.evaluation.explanation import explain
from textsvm.evaluation.length_baseline import LengthBaseline
from textsvm.kernels import KERNELS
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.text.documents import normalise

TEXTS, Y = ["aab", "abb", "bba", "bbb"] * 3, [0, 1, 0, 1] * 3


def options(**kernel):
    """Of `textsvm train` without any but those of the kernel."""
    return machines.ModelOptions(
        kernels.KernelOptions(**kernel), machines.TextOptions(), machines.MachineOptions(), ClusterOptions()
    )


def as_it_is(estimator):
    """The parameters of an estimator, its kernel by what it says of itself."""
    found = estimator.get_params(deep=False)
    kernel = found.pop("kernel")
    return {**found, "kernel": kernel if isinstance(kernel, str) else kernel.structure.as_dict()}


def test_the_command_line_makes_the_machine_that_python_makes():
    """C was 10 there and 1 here."""
    assert as_it_is(estimators.single(options(), LearningOptions())) == as_it_is(textsvm.SVC())
    assert textsvm.SVC().kernel == "auto"
    for made, default in (
        (estimators.single(options(), LearningOptions(regress="score")), textsvm.SVR()),
        (estimators.one_class(options(), None), textsvm.OneClassSVM()),
        (estimators.single(options(), LearningOptions(multilabel=True)), textsvm.MultilabelSVC()),
    ):
        ours, theirs = as_it_is(made), as_it_is(default)
        assert made.new_kernel().structure.as_dict() == default.new_kernel().structure.as_dict()
        assert {**ours, "kernel": None} == {**theirs, "kernel": None}


@pytest.mark.parametrize("name", KERNELS.simple())
def test_a_named_kernel_is_the_one_of_python(name):
    made = estimators.single(options(kernel=[name]), LearningOptions())
    assert made.new_kernel().structure.as_dict() == KERNELS[name]().structure.as_dict()
    assert as_it_is(made) == as_it_is(textsvm.SVC(made.kernel))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "predict", "mail classify", "", "mail"])
def test_help_gives_flags_no_type(command):
    shown = run(*command.split(), "--help").stdout.decode()
    assert "--help" in shown
    assert "bool" not in shown.lower()


def test_tables_are_readable_in_50_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    from textsvm.cli.console import Console

    header = ("fold", "trained on", "tested on", "accuracy", "macro F1", "MCC", "ROC AUC")
    rows = [(name, "1,234", "567", "98.76 %", "98.70 %", "0.9876", "0.9999") for name in ("1", "pooled")]
    console = Console()
    with console.stdout.capture() as shown:
        console.table("folds", rows, header)
    lines = shown.get().splitlines()
    assert max(map(len, lines)) <= 50
    words = shown.get().split()
    assert {"accuracy", "trained", "AUC", "0.9999", "pooled"} <= set(words)
    assert words.count("pooled") == 2  # once a table
    assert len([line for line in lines if line.split()[:1] == ["fold"]]) == 2
    with console.stdout.capture() as shown:
        console.table("folds", rows, header[:4])
    assert shown.get().count("pooled") == 1


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("label", ["ZH", "pt-BR", "a-class-with-a-long-name", "两个汉字"])
def test_numbers_of_a_table_are_never_clipped(label, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    from textsvm.cli.console import Console

    counts = [[str(1000 + 20 * i + j) for j in range(11)] for i in range(11)]
    rows = [(f"truly {label}{i}", *row, ", ".join(["merged"] * 30)) for i, row in enumerate(counts)]
    console = Console()
    with console.stdout.capture() as shown:
        console.table("matrix", rows, ("", *(f"said {label}{i}" for i in range(11)), "reasons"))
    words = shown.get().replace(",", "").split()
    assert {count for row in counts for count in row} <= set(words)
    assert words.count("merged") == 11 * 30
    assert "reasons" in words
    assert max(map(cell_len, shown.get().splitlines())) <= width


def test_a_cell_that_is_not_a_number_is_no_class(tmp_path):
    labels = ["a", "NaN", "b", "nan", ""]
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(f"w{i},{labels[i % 5]}\n" for i in range(20)))
    (tmp_path / "t.jsonl").write_text('{"text": "a", "label": NaN}\n{"text": "b", "label": "nano"}\n')
    corpus = read_corpus(tmp_path / "t.csv")
    assert set(corpus.labels) == {"a", "b"}
    assert [each for each in corpus.problems if "no label" in each[1]] == corpus.problems
    assert len(corpus.problems) == 12
    assert read_corpus(tmp_path / "t.jsonl").labels == ["nano"]


def test_classes_of_one_document_and_empty_documents_are_mentioned(tmp_path):
    for i in range(40):
        (place := tmp_path / "t" / f"c{i if i < 10 else 10 + i % 2}").mkdir(parents=True, exist_ok=True)
        (place / f"{i}.txt").write_text("" if i < 10 else f"word{i} apple")
    result = run("train", tmp_path / "t", "--kernel", "fast", "-o", tmp_path / "m")
    said = result.stderr.decode()
    assert result.returncode == 0, said
    assert "10 of the 12 classes have a single document" in said
    assert "10 of 40 documents are empty" in said
    usual = run("train", sample("reviews"), "--kernel", "fast", "-o", tmp_path / "m").stderr.decode()
    assert "single document" not in usual
    assert "empty" not in usual
    assert "symbols" not in usual


def test_a_document_much_longer_than_the_others_is_named(tmp_path):
    rows = [f"text number {i},{'ab'[i % 2]}" for i in range(40)] + [f"{'long ' * 250_000},a"]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows]))
    said = run(
        "train", tmp_path / "t.csv", "--kernel", "fast", "--max-length", "100", "-o", tmp_path / "m"
    ).stderr.decode()
    assert "document 42 has 1,250,000 symbols, and the median is 14; --max-length cuts long documents" in said


@pytest.mark.parametrize(("share", "what"), [("0.001", "holds out 1,"), ("0.99", "leaves for tr")])
def test_too_small_a_holdout_is_our_own_sentence(share, what, tmp_path):
    message = fails("train", sample("reviews"), "--holdout", share, "-o", tmp_path / "m")
    assert what in message
    assert "each of the 2 classes" in message
    assert "test_size" not in message


def test_what_cannot_be_saved_is_one_sentence(tmp_path):
    pipeline = make_pipeline(FunctionTransformer(), textsvm.SVC("fast")).fit(TEXTS, Y)
    said = r"'functiontransformer' of the Pipeline.*joblib\.dump.*runs any code.*save\(pipeline\[-1\], path\)"
    with pytest.raises(InputError, match=said):
        textsvm.save(pipeline, tmp_path / "m")
    with pytest.raises(InputError, match=r"not FunctionTransformer; joblib"):
        textsvm.save(FunctionTransformer(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", [textsvm.SVC("fast"), textsvm.CalibratedSVC(textsvm.SVC("fast"), cv=2)])
def test_pipelines_are_kept(model, tmp_path):
    values = model.fit(TEXTS, Y).decision_function(["ab", "b"]).tolist()
    for alone in (make_pipeline(model), make_pipeline("passthrough", model)):
        textsvm.save(alone, tmp_path / "m")
        assert textsvm.load(tmp_path / "m").decision_function(["ab", "b"]).tolist() == values
    pipeline = make_pipeline(FunctionTransformer(), model)
    joblib.dump(pipeline, tmp_path / "p")
    for again in (joblib.load(tmp_path / "p"), pickle.loads(pickle.dumps(pipeline))):
        assert again.decision_function(["ab", "b"]).tolist() == values


def test_estimators_without_probabilities_name_an_alternative():
    named = {
        textsvm.SVC: r"CalibratedSVC\(SVC\(\)\)", textsvm.SVR: "numbers, not classes",
        textsvm.MultilabelSVC: "OneVsRestClassifier", textsvm.OneClassSVM: "score_samples",
    }  # fmt: skip
    for kind, said in named.items():
        assert not hasattr(kind(), "predict_proba")
        with pytest.raises(AttributeError, match=f"{kind.__name__} has no probabilities; .*{said}"):
            kind().predict_proba(TEXTS)
    model = OneVsRestClassifier(textsvm.CalibratedSVC(textsvm.SVC("fast"), cv=2))
    several = np.array([Y, [1 - y for y in Y[:6]] + [0] * 6]).T
    assert model.fit(TEXTS, several).predict_proba(["ab", "b", "a"]).shape == (3, 2)


@pytest.mark.parametrize("labels", [[("a", "c"), ("b",)] * 6, [("a", "c"), ("b", "d")] * 6])
@pytest.mark.parametrize("kernel", ["auto", "fast"])
def test_tuples_as_labels_are_one_sentence(labels, kernel):
    with pytest.raises(InputError, match="expected one label a document, got several"):
        textsvm.SVC(kernel).fit(TEXTS, labels)
    with pytest.raises(InputError, match="expected one label a document, got several"):
        textsvm.cross_validate(textsvm.SVC(kernel), TEXTS, labels)


def test_other_charsets_than_declared_are_told_calmly(tmp_path):
    for i in range(8):
        (tmp_path / "c" / ("ham", "spam")[i % 2]).mkdir(parents=True, exist_ok=True)
        head = b"From: a@b.c\nSubject: x\nContent-Type: text/plain; charset=us-ascii\n\n"
        (tmp_path / "c" / ("ham", "spam")[i % 2] / f"{i}").write_bytes(head + b"caf\xe9 %d" % i)
    said = run("train", tmp_path / "c", "--kernel", "fast", "-o", tmp_path / "m").stderr.decode()
    assert "some bytes are not us-ascii, which was declared, and were read as Windows-1252" in said
    assert "3 more notes of that kind" in said
    assert "damaged" not in said + run("corpus", tmp_path / "c").stdout.decode()


def test_the_report_of_training_has_c(tmp_path):
    made = report("train", sample("reviews"), "--kernel", "fast", "-C", "3", "-o", tmp_path / "m")
    assert made["C"] == 4.5  # times C of the default


@pytest.fixture(scope="module")
def spam(tmp_path_factory):
    """A filter of mails, and what was said of its training."""
    path = tmp_path_factory.mktemp("spam") / "m"
    return path, report("train", sample("mail"), "--positive", "spam", "--kernel", "fast", "-o", path)


def test_of_two_classes_each_keeps_its_name(spam):
    path, said = spam
    assert [each["class"] for each in said["classes"]] == ["ham", "spam"]
    assert textsvm.load(path).info_["negative"] == "ham"
    figures = report("evaluate", path, sample("mail"))
    assert figures["labels"] == ["ham", "spam"]
    row = json.loads(run("predict", path, stdin=b"the meeting is on monday").stdout)
    assert row["label"] in ("ham", "spam")
    assert (row["label"] == "spam") == (row["decision"] >= 0)


def test_rest_is_what_was_asked_for_or_more_than_one_class(tmp_path):
    for corpus, options in ((sample("mail"), ["--negative", "rest"]), (sample("questions"), [])):
        positive = "spam" if options else "when"
        said = report(
            "train", corpus, "--positive", positive, *options, "--kernel", "fast", "-o", tmp_path / "m"
        )
        assert [each["class"] for each in said["classes"]] == ["rest", positive]
        assert textsvm.load(tmp_path / "m").info_["negative"] == "rest"


def test_explain_names_training_documents(spam, tmp_path):
    corpus = read_corpus(sample("mail"))
    options = ["explain", spam[0], "-", "--similar", "3"]
    shown = report(*options, stdin=corpus.texts[4].encode())["similar"]
    for each in shown:
        assert each["id"] == corpus.ids[each["index"]]
    assert shown[0]["id"] in run(*options, stdin=corpus.texts[4].encode()).stdout.decode()
    report("train", sample("mail"), "--kernel", "fast", "--holdout", "0.5", "-o", tmp_path / "m")
    half = textsvm.load(tmp_path / "m")
    text_of = dict(zip(corpus.ids, corpus.texts, strict=True))
    for each in explain(half, corpus.texts[:3]):
        assert [normalise(one.text) for one in each.similar] == [
            normalise(text_of[one.id]) for one in each.similar
        ]


def test_ids_of_support_vectors_go_with_their_texts(spam, tmp_path):
    assert len(textsvm.load(spam[0]).info_["support_ids"]) == spam[1]["n_support"]
    report("train", sample("mail"), "--kernel", "fast", "--without-texts", "-o", tmp_path / "m")
    assert textsvm.load(tmp_path / "m").info_["support_ids"] is None
    model = textsvm.load(spam[0])
    for odd in (None, ["one"], 3, [1] * len(model.support_)):
        model.info_["support_ids"] = odd
        [found] = explain(model, ["free money"])
        assert {each.id for each in found.similar} == {None}


def test_a_search_that_is_interrupted_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    from textsvm.selection.search import GridSearch

    def tune(*options):
        command = ["textsvm", "tune", sample("questions"), "--p", "2,3", "-C", "1,10", "-o", tmp_path / "m"]
        monkeypatch.setattr("sys.argv", [*map(str, command), *map(str, options)])
        code = cli.console.main(cli.app_of())
        return code, *capsys.readouterr()

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


def test_a_regression_is_told_beside_the_length_alone(tmp_path):
    """Scores of essays that lengths tell: figures of the same folds, and of the training part alone."""
    rows = [("good " * (i % 10 + 1), i % 10 + (i % 3) / 10) for i in range(60)]
    (tmp_path / "t.csv").write_text("essay,score\n" + "".join(f"{text},{score}\n" for text, score in rows))
    command = [tmp_path / "t.csv", "--text", "essay", "--regress", "score", "--kernel", "spectrum"]
    found = report("cv", *command)
    assert found["length_alone"]["r2"] > 0.99
    assert found["length_alone"].keys() == found["mean"].keys()
    assert "length alone" in run("cv", *command).stdout.decode()
    held = report("train", *command, "--holdout", "0.3", "-o", tmp_path / "m")["holdout"]
    assert held["length_alone"]["r2"] > 0.99
    figures = report("evaluate", tmp_path / "m", tmp_path / "t.csv", "--report", tmp_path / "r.html")
    assert figures["length_alone"]["r2"] > 0.99
    assert "The length of a text alone" in (tmp_path / "r.html").read_text()
    assert "The length of a text alone" in run("evaluate", tmp_path / "m", tmp_path / "t.csv").stdout.decode()
    assert "length_alone" not in report("cv", sample("reviews"), "--kernel", "fast")


def test_the_fit_to_lengths_is_monotone_and_survives_odd_files():
    rising = LengthBaseline.fit(["a" * n for n in (1, 2, 3, 4)], [1.0, 3.0, 2.0, 4.0])
    assert rising.judge(["a" * 9, ""], [4.0, 1.0])["mae"] == 0
    falling = LengthBaseline.fit({"text": ["a", "aa", "aaa"], "n": np.zeros(3)}, [3.0, 2.0, 1.0])
    assert falling.judge({"text": ["aa", "a"]}, [2.0, 3.0])["mae"] == 0
    assert LengthBaseline.fit(np.zeros((3, 2)), [1.0, 2.0, 3.0]) is None
    assert LengthBaseline.of({"length_baseline": vars(rising)}) == rising
    for odd in (
        None,
        3,
        {},
        {"lengths": [1]},
        {"lengths": [1], "numbers": [1, 2]},
        {"lengths": "x", "numbers": []},
    ):
        assert LengthBaseline.of({"length_baseline": odd}) is None


def test_messages_name_packages_that_can_be_installed():
    package = Path(textsvm.__file__).parent
    for path in package.rglob("*.py"):
        assert not re.search(r"pip install \W*textsvm", path.read_text("utf-8")), path


@pytest.mark.parametrize("command", ["train", "cv", "tune", "compare"])
def test_the_help_shows_the_options_that_people_use(command):
    """And all of them on request; completion knows all."""
    short, long = (run(command, option).stdout.decode() for option in ("--help", "--help-all"))
    assert "--help-all" in short
    assert "--label" in short
    assert len(short.splitlines()) < 100
    for rare in ("--skip-invalid", "--vectors"):
        assert rare not in short
        assert rare in long
    if command == "train":
        assert len(re.findall(r"(?m)^\W+ --?[a-zA-Z]", short)) <= 20
        assert "--duality-gap" in long
