"""Files of vectors as corpora: LIBSVM's format as scikit-learn reads it, .npy and .npz; columns of tables."""

import bz2
import gzip
import io
import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from refusals import refuses
from scipy.sparse import csc_matrix, csr_matrix, issparse, random, save_npz
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from textsvm.errors import InputError
from textsvm.readers.files import File
from textsvm.readers.read import read_corpus, read_documents
from textsvm.readers.stream import stream_corpus
from textsvm.readers.vectors import parse_libsvm, read_labels, read_vectors
from textsvm.text.stored import StoredTexts


def parse(path, **options):
    return parse_libsvm(File(path.name, path.read_bytes()), [], **options)


NUMBERS = st.floats(-1e300, 1e300, allow_nan=False)
MATRICES = arrays.arrays(
    st.sampled_from([np.float64, np.float32]),
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.one_of(st.just(0.0), st.floats(width=32, allow_nan=False, allow_infinity=False)),
)


@settings(max_examples=50, deadline=None)
@given(MATRICES, st.data())
def test_a_file_is_read_as_by_scikit_learn(tmp_path_factory, matrix, data):
    labels = data.draw(st.lists(NUMBERS, min_size=len(matrix), max_size=len(matrix)))
    path = tmp_path_factory.mktemp("round") / "x.libsvm"
    dump_svmlight_file(matrix, labels, str(path), zero_based=False)
    found, read = parse(path)
    theirs, their_labels = load_svmlight_file(str(path), n_features=matrix.shape[1], zero_based=False)
    assert (theirs != found if found.shape == theirs.shape else theirs[:, : found.shape[1]] != found).nnz == 0
    assert read.tolist() == their_labels.tolist()


def test_comments_blank_lines_several_labels_and_queries(write):
    path = write("train.svm", "# about_it\n1,3 2:0.5 # first_one\n\n  2 1:1 3:-2e-1\n")
    found, labels = parse(path)
    assert found.toarray().tolist() == [[0, 0.5, 0], [1, 0, -0.2]]
    assert labels == [(1.0, 3.0), (2.0,)]
    assert read_corpus(path).labels == [("1", "3"), ("2",)]
    path.write_text("1 qid:4 1:1\n0 qid:5 2:1\n")
    corpus = read_corpus(path)
    assert (corpus.labels, corpus.part) == (["1", "0"], ["train"] * 2)
    assert "qid: is left out" in corpus.problems[0][1]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("1 1:2\n1 0:1", "line 2, column 3", "the index is 0, and indices count from 1"),
        ("1 -4:1", "line 1, column 3", "'-4:1' is not `index:value`"),
        (
            "1 3:1 2:1",
            "line 1, column 7",
            "'2:1' is not `index:value` with a finite number, an index above 3",
        ),
        ("1 3:1 3:1", "line 1, column 7", "an index above 3"),
        ("1 3:one", "line 1, column 3", "'3:one' is not `index:value` with a finite number"),
        ("1 1:1 3:nan", "line 1, column 7", "'3:nan'"),
        ("1 1:-inf", "line 1, column 3", "'1:-inf'"),
        ("1 1:1e999", "line 1, column 3", "'1:1e999'"),
        ("1 x:1", "line 1, column 3", "'x:1'"),
        ("1 1_0:1", "line 1, column 3", "'1_0:1'"),
        ("1 2147483648:1", "line 1, column 3", "at most 2,147,483,647"),
        ("1 99999999999999999999:1", "line 1, column 3", "at most 2,147,483,647"),
        ("spam 1:1", "line 1, column 1", "'spam' is no finite number, the label"),
        ("nan 1:1", "line 1, column 1", "'nan' is no finite number, the label"),
        ("1 1:1\n1:1 2:1", "line 2, column 1", "'1:1' is no finite number, the label"),
        ("1 1:1 5", "line 1, column 7", "'5' is not `index:value`"),
        ("1 1:1:1", "line 1, column 3", "'1:1:1'"),
    ],
)
def test_a_bad_line_is_named_with_its_column(text, where, what, write):
    path = write("x.svm", text + "\n")
    with pytest.raises(InputError) as error:
        parse(path)
    assert str(error.value).startswith(f"x.svm, {where}: ")
    assert what in str(error.value)
    if " 0:" not in text:  # an index 0 shows the corpus to count from 0
        refuses(where, read_corpus, path)


def test_indices_from_0(write):
    path = write("zero.svm", "1 0:2 2:1\n0 1:3 # 0:\n")
    vectors, _ = parse(path, zero_based=True)
    assert vectors.toarray().tolist() == [[2, 0, 1], [0, 3, 0]]
    corpus = read_corpus(path)
    assert (corpus.vectors != vectors).nnz == 0
    assert (corpus.detected, corpus.reading["first_index"]) == ({"first_index": "0"}, "0")
    assert "an index is 0, so indices count from 0" in corpus.problems[0][1]
    other = write("other.svm", "1 1:2\n")  # the whole corpus decides, or the training of the model
    assert read_corpus([path, other]).vectors.toarray().tolist() == [[2, 0, 1], [0, 3, 0], [0, 2, 0]]
    assert read_corpus(other, recorded={"first_index": "0"}).vectors.toarray().tolist() == [[0, 2]]
    assert read_documents(other, recorded={"first_index": "0"}).vectors.toarray().tolist() == [[0, 2]]
    assert read_corpus(other).vectors.toarray().tolist() == [[2]]
    for read in (read_vectors, lambda p: read_corpus(p, recorded={"first_index": "1"})):
        refuses("the index is 0, and indices count from 1", read, path)
    assert read_vectors(write("comment.svm", "1 1:2 # 0:\n")).toarray().tolist() == [[2]]


LINES = b"+1 1:0.5 3:1\n-1 2:1\n2.5 1:1\n"


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("x", bytes),
        ("x.txt", bytes),
        ("x.bz2", bz2.compress),
        ("x.gz", gzip.compress),
        ("x.svm.xz", lzma.compress),
    ],
)
def test_the_format_is_told_from_the_content(name, pack, tmp_path):
    (tmp_path / name).write_bytes(pack(LINES))
    corpus = read_corpus(tmp_path / name)
    assert corpus.format == "libsvm"
    assert corpus.vectors.toarray().tolist() == [[0.5, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert corpus.labels == ["1", "-1", "2.5"]
    assert (corpus.ids, corpus.texts, corpus.examples) == (["1", "2", "3"], [], corpus.vectors)
    refuses("holds vectors, not documents", list, stream_corpus(tmp_path / name))
    assert (stream_corpus(tmp_path / name).stored().vectors != corpus.vectors).nnz == 0
    documents = read_documents([tmp_path / name, tmp_path / name])
    assert documents.labels is None
    assert documents.vectors.shape == (6, 3)


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("1\tat 12:30 we meet\n2\tnothing 3:1 new\n", "lines"),
        ("ham\t12:30\nspam\t3:1\n", "lines"),
        ("__label__1 2:1 3:1\n__label__2 4:5\n", "lines"),
        ('{"text": "1 2:3", "label": "a"}\n{"text": "4 5:6", "label": "b"}\n', "jsonl"),
        ("Dear all,\n1 2:30 is when we meet\n2 3:30 is when we leave\n", "file"),
    ],
)
def test_texts_with_colons_stay_texts(text, format, tmp_path):
    (tmp_path / "x.txt").write_text(text)
    assert read_documents(tmp_path / "x.txt").format == format


def test_labels_that_are_numbers_to_be_predicted(tmp_path):
    (tmp_path / "x.svm").write_bytes(LINES)
    corpus = read_corpus(tmp_path / "x.svm", target="label")
    assert corpus.targets == [1.0, -1.0, 2.5]
    assert corpus.labels is None
    refuses("no column 'price'; its labels are called label", read_corpus, tmp_path / "x.svm", target="price")


def test_subsets_duplicates_and_reduced_labels_carry_vectors(write):
    corpus = read_corpus(write("x.svm", "1 1:1\n2 2:1\n1 1:1\n3 1:1 2:0.5\n"))
    assert corpus.duplicates() == [("1", "3")]
    assert corpus.subset([3, 0]).vectors.toarray().tolist() == [[1, 0.5], [1, 0]]
    two = corpus.reduce_labels("1", "2")
    assert two.labels == ["1", "2", "1"]
    assert two.vectors.shape == (3, 2)


def numpy_file(values):
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int64, bool])
def test_npy(dtype, tmp_path):
    values = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    np.save(tmp_path / "x.npy", values)
    corpus = read_corpus(tmp_path / "x.npy")
    assert corpus.format == "npy"
    assert corpus.vectors.dtype == (np.float32 if dtype in (np.float32, np.uint8, bool) else np.float64)
    assert np.array_equal(corpus.vectors, values)
    assert corpus.labels is None
    assert np.array_equal(stream_corpus(tmp_path / "x.npy").stored().vectors, values)


def test_npz_of_arrays_and_of_scipy(tmp_path):
    X, y = np.arange(6.0).reshape(3, 2), np.array([0.0, 1.0, 2.5])
    np.savez(tmp_path / "a.npz", X=X, y=y, other=np.eye(2))
    corpus = read_corpus(tmp_path / "a.npz")
    assert corpus.format == "npz"
    assert np.array_equal(corpus.vectors, X)
    assert corpus.labels == ["0", "1", "2.5"]
    assert read_corpus(tmp_path / "a.npz", target="y").targets == [0.0, 1.0, 2.5]
    np.savez_compressed(
        tmp_path / "b.npz", embeddings=X, labels=np.array(["a", "b", "a"]), ids=np.array([7, 8, 9])
    )
    corpus = read_corpus(tmp_path / "b.npz")
    assert (corpus.labels, corpus.ids) == (["a", "b", "a"], ["7", "8", "9"])
    S = random(5, 4, 0.4, "csr", random_state=0)
    for name, matrix in (("c", csr_matrix(S)), ("d", csc_matrix(S))):
        save_npz(tmp_path / f"{name}.npz", matrix)
        found = read_vectors(tmp_path / f"{name}.npz")
        assert issparse(found)
        assert (found != S).nnz == 0


def sparse_file(**changes):
    """A sparse matrix as SciPy writes it, with other arrays."""
    arrays = {"format": np.array(b"csr"), "shape": np.array([2, 3]), "data": np.ones(2)}
    arrays |= {"indices": np.array([0, 2]), "indptr": np.array([0, 1, 2])} | changes
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (numpy_file(np.zeros((2, 2)))[:-5], "is not a .npy file that can be read"),
        (numpy_file(np.zeros(3)), r"shape \(3,\); vectors are the rows"),
        (numpy_file(np.array([["a"]])), "real numbers"),
        (numpy_file(np.array([[None]], object)), "is not a .npy file that can be read"),
        (numpy_file(np.zeros((0, 3))), "holds no vector"),
        (numpy_file(np.zeros((3, 0))), "holds no vector"),
        (numpy_file(np.array([[0, 1], [np.inf, 1]])), r"has inf in row 1, column 0 \(counted from 0\)"),
        (numpy_file(np.zeros((2, 2))).replace(b"(2, 2)", b"(9, 9)"), "is not a .npy file that can be read"),
        (b"\x93NUMPY", "is not a .npy file that can be read"),
        (sparse_file(indices=np.array([0, 3])), "damaged sparse matrix"),
        (sparse_file(indices=np.array([-1, 0])), "damaged sparse matrix"),
        (sparse_file(indptr=np.array([0, 5, 2])), "damaged sparse matrix"),
        (sparse_file(indptr=np.array([0, 1, 0])), "index pointers decrease"),
        (sparse_file(shape=np.array([2, 3, 4])), "damaged sparse matrix"),
        (sparse_file(format=np.array(b"coo")), "format coo; write it as CSR"),
        (sparse_file(data=np.array([1, np.nan])), r"has nan in row 1, column 2 \(counted from 0\)"),
        (sparse_file(data=np.ones(2, complex)), "real numbers"),
        (b"# nothing\n", "holds no vector"),
        (b"\n\n", "holds no vector"),
    ],
    ids=range(19),
)
def test_a_bad_file_of_vectors_is_refused(data, what, write):
    suffix = {b"\x93N": "npy", b"PK": "npz"}.get(data[:2], "svm")
    refuses(what, read_corpus, write(f"x.{suffix}", data))


def test_an_npz_without_a_clear_matrix_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.eye(2), b=np.eye(2))
    refuses("has the arrays a, b; call the matrix of vectors X", read_corpus, tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", X=np.eye(2), y=np.zeros(3))
    refuses(r"2 vectors, and labels of shape \(3,\)", read_corpus, tmp_path / "x.npz")


def test_labels_from_a_file(tmp_path):
    (tmp_path / "y.txt").write_text("a\nb \n")
    np.save(tmp_path / "y.npy", np.array([1, 2.0]))
    assert read_labels(tmp_path / "y.txt") == ["a", "b"]
    assert read_labels(tmp_path / "y.npy") == ["1", "2"]
    (tmp_path / "y.txt").write_text("a\n\nb\n")
    refuses("line 2 is empty", read_labels, tmp_path / "y.txt")


TABLE = "label,subject,body,hour,size\na,Hi,one,1,2.5\nb,Re,,23,1e2\n"


@pytest.mark.parametrize("stored", [False, True])
def test_columns_stay_apart(stored, tmp_path):
    (tmp_path / "x.csv").write_text(TABLE)
    wishes = {"text": ["subject", "body"], "numbers": "hour,size"}
    if stored:
        corpus = stream_corpus(tmp_path / "x.csv", **wishes).stored()
        assert isinstance(corpus.columns["body"], StoredTexts)
    else:
        corpus = read_corpus(tmp_path / "x.csv", **wishes)
    columns = {name: list(values) for name, values in corpus.columns.items()}
    assert columns == {"subject": ["Hi", "Re"], "body": ["one", ""], "hour": [1, 23], "size": [2.5, 100]}
    assert list(corpus.texts) == ["Hi\none", "Re\n"]  # no column is lost
    assert isinstance(corpus.texts, StoredTexts) == stored
    assert corpus.texts[1] == read_corpus(tmp_path / "x.csv", text="subject,body").texts[1]
    assert corpus.examples is corpus.columns
    part = corpus.subset([1])
    assert {name: list(values) for name, values in part.columns.items()} == {
        "subject": ["Re"], "body": [""], "hour": [23], "size": [100],
    }  # fmt: skip
    assert corpus.duplicates() == []
    assert corpus.subset([0, 1, 0]).duplicates() == [("2", "2")]


def test_columns_of_several_paths_and_vectors_beside(write):
    path = write("x.csv", TABLE)
    corpus = read_documents([path] * 2, text=["subject"], numbers="hour")
    assert corpus.columns["hour"].tolist() == [1, 23, 1, 23]
    beside = corpus.with_vectors(np.eye(4), "v.npy")
    assert list(beside.examples) == ["subject", "hour", "vectors"]
    assert beside.subset([2]).vectors.tolist() == [[0, 0, 1, 0]]
    refuses(r"v\.npy has 3 vectors and .* 4 documents", corpus.with_vectors, np.eye(3), "v.npy")
    assert list(read_corpus(path).with_vectors(np.eye(2), "v.npy").examples) == ["text", "vectors"]
    path.write_text("label,hour,size\na,1,2\nb,3,4\n")
    numbers = read_corpus(path, numbers="hour,size")
    assert (list(numbers.columns), numbers.texts, numbers.labels) == (["hour", "size"], [], ["a", "b"])
    assert len(numbers.subset([0])) == 1


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("a,Hi,one,,2", r"x\.csv, line 2 left out: its number 'hour' is empty"),
        ("a,Hi,one,late,2", "'hour' is 'late'"),
        ("a,Hi,one,1,inf", "'size' is 'inf'"),
    ],
)
def test_a_number_that_is_none_is_named_with_row_and_column(row, what, tmp_path):
    (tmp_path / "x.csv").write_text(TABLE.split("\n")[0] + "\n" + row + "\n")
    refuses(what, read_corpus, tmp_path / "x.csv", text=["subject"], numbers="hour,size")


def test_columns_that_are_not_there(tmp_path):
    (tmp_path / "x.csv").write_text(TABLE)
    with pytest.raises(
        InputError, match="no column 'hours' for the numbers; did you mean 'hour'; its 5 columns are: label"
    ):
        read_corpus(tmp_path / "x.csv", numbers="hours")
    with pytest.raises(InputError, match="'hour' is named twice: --text and --numbers"):
        read_corpus(tmp_path / "x.csv", text=["hour"], numbers="hour")
    (tmp_path / "mail").write_text("a\tone\nb\ttwo\n")
    refuses("read as lines, which has no column 'hour'", read_corpus, tmp_path / "mail", numbers="hour")
