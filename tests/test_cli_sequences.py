"""The command line on FASTA: every verb, several files, several labels, and what is wrong in one sentence."""

import pytest
from command import fails, printed_rows, report, run

from textsvm.readers import sample

SITES = sample("sites")
KERNEL = ["--kernel", "gapped:6,m=2,canonical"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "sites.textsvm"
    report("train", SITES, "--part", "train", "--positive", "bound", *KERNEL, "-o", path)
    return path


def test_without_options_dna_has_gapped_kmers_of_both_strands(tmp_path):
    trained = report("train", SITES, "--part", "train", "--positive", "bound", "-o", tmp_path / "m")
    assert "gapped:7,m=2,canonical" in trained["kernel_spelled"]
    assert trained["chosen"].endswith("the default for DNA")
    assert report("evaluate", tmp_path / "m", SITES, "--part", "test")["accuracy"] > 0.85


def test_evaluate_predict_and_explain(model, tmp_path):
    assert report("evaluate", model, SITES, "--part", "test")["roc_auc"] > 0.9
    unlabelled = b">one\nTTTTCCACTAGGTGGTTTT\n>two some more\nTTTTNNNNTTTTTTTTTTT\n"
    found = printed_rows("predict", model, "-", "--format", "fasta", stdin=unlabelled)
    assert [each["id"] for each in found] == ["one", "two"]
    assert found[0]["decision"] > found[1]["decision"]
    complement = b">one\nAAAACCACCTAGTGGAAAA\n>two\nAAAAAAAAAAANNNNAAAA\n"
    (tmp_path / "other strand.fa").write_bytes(complement.lower())
    again = printed_rows("predict", model, tmp_path / "other strand.fa")
    assert [each["decision"] for each in again] == pytest.approx([each["decision"] for each in found])
    explained = printed_rows("explain", model, tmp_path / "other strand.fa", "--json", "--similar", "0")
    assert [each["id"] for each in explained] == ["one", "two"]


def test_two_files_are_two_classes(tmp_path):
    (tmp_path / "pos.fa").write_text("".join(f">p{i}\nACGTAACC{'AC' * i}\n" for i in range(9)))
    (tmp_path / "neg.fa").write_text("".join(f">n{i}\nTTTTGGTT{'TG' * i}\n" for i in range(9)))
    files = [tmp_path / "pos.fa", tmp_path / "neg.fa"]
    trained = report("train", *files, *KERNEL, "-o", tmp_path / "m")
    assert trained["classes"] == [
        {"class": "neg", "documents": 9, "support_vectors": trained["classes"][0]["support_vectors"]},
        {"class": "pos", "documents": 9, "support_vectors": trained["classes"][1]["support_vectors"]},
    ]
    assert report("evaluate", tmp_path / "m", *files)["accuracy"] == 1
    message = fails("train", *files, *KERNEL, "-o", files[1], "--force", code=2)
    assert "would replace the corpus" in message


def test_several_labels_a_sequence(tmp_path):
    trained = report(
        "train", SITES, "--part", "train", "--label", "factors", "--multilabel", *KERNEL, "-o", tmp_path / "m"
    )
    assert [each["class"] for each in trained["classes"]] == ["alpha", "beta", "none"]
    judged = report("evaluate", tmp_path / "m", SITES, "--part", "test", "--label", "factors")
    assert judged["micro_f1"] > 0.8


def test_without_labels_there_is_nothing_to_judge(tmp_path):
    (tmp_path / "x.fa").write_text(
        ">a f=x;y\nACGTACGT\n>b f=y\nAACCAACC\n>c f=x\nGGTTGGTT\n>d g=1\nGGTTGGT\n"
    )
    (tmp_path / "y.fa").write_text(">a\nACGTACGT\n")
    done = run("train", tmp_path / "x.fa", "--label", "f", "--multilabel", *KERNEL, "-o", tmp_path / "m")
    assert b"note: d: left out: it has no label" in done.stderr
    assert "y.fa has no labels" in fails("evaluate", tmp_path / "m", tmp_path / "y.fa", "--label", "f")


def test_compare_has_baselines_without_words():
    compared = report("compare", SITES, "--kernel", "gapped:6,m=2,canonical")["classifiers"]
    assert [each["name"] for each in compared][:2] == [
        "TF-IDF characters 1-5 + LinearSVC",
        "TF-IDF characters 1-5 + LinearSVC, tuned C",
    ]


def test_a_record_of_one_letter_is_read_like_any_other(model, tmp_path):
    (tmp_path / "x.fa").write_text(">a label=bound\nA\n>b label=free\nACGTACGTAC\n>c label=free\nAAAAAAAA\n")
    assert [each["id"] for each in printed_rows("predict", model, tmp_path / "x.fa")] == ["a", "b", "c"]
    report("train", tmp_path / "x.fa", *KERNEL, "-o", tmp_path / "m")


def test_letters_that_cannot_be_read_are_said_of_what_is_predicted(model, tmp_path):
    (tmp_path / "x.fa").write_text(">a\nACGT\n>b\nACXT\n")
    for command in ("predict", "explain"):
        message = fails(command, model, tmp_path / "x.fa")
        assert "record b of" in message
        assert "'X'" in message
