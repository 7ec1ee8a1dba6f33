"""A kernel matrix goes into a file and comes back bit by bit, and what is no such file is told apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from problems import gaussian
from sklearn.svm import SVC as LIBSVM

from textsvm.errors import InputError
from textsvm.gram.files import read_gram, write_gram
from textsvm.sources.matrix import check_block, check_gram

README = b"""15 0:1 1:4 2:6 3:1
45 0:2 1:6 2:18 3:0
25 0:3 1:1 2:0 3:4
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="K.libsvm"):
        path = tmp_path / name
        path.write_bytes(text)
        return path

    return write


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["npy", "libsvm", "txt"])
@given(seed=st.integers(0, 1000), values=arrays.arrays(np.float32, (4, 4), elements=st.floats(width=32)))
def test_round_trip(ending, seed, values, tmp_path_factory):
    path = tmp_path_factory.mktemp("gram") / f"K.{ending}"
    values = np.where(np.isfinite(values), values, 0).astype(np.float32)
    symmetric = np.triu(values) + np.triu(values, 1).T
    labels = np.random.default_rng(seed).standard_normal(4) if ending != "npy" else None
    write_gram(path, symmetric, labels)
    matrix, read = read_gram(path)
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, symmetric)
    np.testing.assert_array_equal(np.signbit(matrix), np.signbit(symmetric))
    assert (read is None) == (labels is None)
    if labels is not None:
        np.testing.assert_array_equal(read, labels)


@pytest.mark.parametrize("ending", ["npy", "svmlight"])
def test_other_documents_by_training_documents(ending, tmp_path):
    block = np.random.default_rng(0).random((7, 3), np.float32)
    write_gram(tmp_path / f"K.{ending}", block)
    np.testing.assert_array_equal(read_gram(tmp_path / f"K.{ending}", 3)[0], block)
    with pytest.raises(InputError, match="3 columns and there were 7 training documents"):
        read_gram(tmp_path / f"K.{ending}", 7)


def test_libsvm_trains_on_what_was_read(tmp_path):
    matrix, y = gaussian(80)
    for name in ("K.npy", "K.libsvm"):
        write_gram(tmp_path / name, matrix, None if name == "K.npy" else y)
        read, labels = read_gram(tmp_path / name)
        theirs = LIBSVM(kernel="precomputed", C=3).fit(
            read.astype(np.float64), y if labels is None else labels
        )
        straight = LIBSVM(kernel="precomputed", C=3).fit(matrix.astype(np.float64), y)
        np.testing.assert_array_equal(theirs.dual_coef_, straight.dual_coef_)
        np.testing.assert_array_equal(theirs.support_, straight.support_)


def test_the_examples_of_libsvms_readme(file):
    matrix, labels = read_gram(file(README))
    np.testing.assert_array_equal(matrix, [[4, 6, 1], [6, 18, 0], [1, 0, 4]])
    np.testing.assert_array_equal(labels, [15, 45, 25])
    subset, labels = read_gram(file(b"25 0:3 1:1 2:0 3:4\r\n\n45 0:2 1:6 2:18 3:0"))
    np.testing.assert_array_equal(subset, [[4, 0], [0, 18]])
    np.testing.assert_array_equal(labels, [25, 45])
    test, labels = read_gram(file(b"15 0:? 1:2 2:0 3:1\n"), 3)
    np.testing.assert_array_equal(test, [[2, 0, 1]])
    np.testing.assert_array_equal(labels, [15])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n", "has no lines"),
        (README + b"spam\n", "line 4: not a line of LIBSVM's format"),
        (b"1 1:4 2:3\n", "line 1: not a line"),
        (b"1 0:1 1:4 2:x\n", "line 1: not a line"),
        (b"1 0:1 1:4 2 3\n", "line 1: not a line"),
        (b"1 0:1 1:4 2:\xff\n", "line 1: not a line"),
        (b"a 0:1 1:4\n", "line 1: not a line"),
        (b"1 0:? 1:4\n", "line 1: not a line"),
        (b"1 0:1\n", "line 1: not a line"),
        (b"1 0:1 1:4 3:1\n", "line 1: kernel value 2 has the number 3"),
        (b"1 0:1 1:nan\n", "line 1: kernel value 1, nan, is not a finite"),
        (b"1 0:1 1:1e39\n", r"line 1: kernel value 1, 1e\+39, is not a finite"),
        (b"1 0:1 1:1 2:0\n1 0:2 1:0\n", "line 2: 1 kernel values and 2 in the lines before"),
        (b"1 0:1 1:1 2:0\n1 0:3 1:0 2:1\n", "line 2: 0:3 is not the number of one of the 2"),
        (b"1 0:1 1:1 2:0\n1 0:1.5 1:0 2:1\n", "line 2: 0:1.5 is not the number"),
        (b"1 0:1 1:1 2:0\n\n1 0:1 1:0 2:1\n", "line 3: document 0:1 is in line 1 already"),
        (b"1 0:1 1:1 2:0.5\n1 0:2 1:0.25 2:1\n", "not symmetric: 0.5 in row 0, column 1 and 0.25"),
        (b"\x93NUMPY\x01\x00", "is not a .npy file that can be read"),
    ],
)
def test_files_that_hold_no_kernel_matrix(text, sentence, file):
    path = file(text)
    with pytest.raises(InputError, match=sentence) as error:
        read_gram(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.ones(3), r"shape \(3,\)"),
        (np.ones((2, 2), complex), "complex128"),
        (np.array([["a", "b"]] * 2), "real numbers"),
        (np.ones((2, 3)), "2 rows and 3 columns"),
        (np.ones((0, 0)), "is empty"),
        (np.array([[1, np.inf], [np.inf, 1]]), "inf in row 0, column 1"),
        (np.array([[1, 1e39], [1e39, 1]]), "inf in row 0, column 1"),
        (np.array([[1, 2], [3, 4]]), "not symmetric: 2 in row 0, column 1 and 3"),
    ],
)
def test_npy_files_that_hold_no_kernel_matrix(array, sentence, tmp_path):
    np.save(tmp_path / "K.npy", array)
    with pytest.raises(InputError, match=sentence) as error:
        read_gram(tmp_path / "K.npy")
    assert "K.npy" in str(error.value)


def test_npy_files_are_never_unpickled_and_may_be_cut(tmp_path):
    path = tmp_path / "K.npy"
    np.save(path, np.array([[{}, 1], [1, 2]], object), allow_pickle=True)
    with pytest.raises(InputError, match=r"is not a .npy file that can be read"):
        read_gram(path)
    np.save(path, np.eye(50))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match=r"is not a .npy file that can be read"):
        read_gram(path)
    with pytest.raises(InputError, match=r"cannot read .*none.npy: No such file"):
        read_gram(tmp_path / "none.npy")
    with pytest.raises(InputError, match="cannot read"):
        read_gram(tmp_path)


@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "u1", ">f8", "?"])
def test_npy_files_of_any_number_and_order(kind, tmp_path):
    matrix = np.asfortranarray(np.eye(3).astype(kind))
    np.save(tmp_path / "K.npy", matrix)
    read = read_gram(tmp_path / "K.npy")[0]
    assert read.dtype == np.float32
    assert read.flags.c_contiguous
    np.testing.assert_array_equal(read, np.eye(3))


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="no place for labels"):
        write_gram(tmp_path / "K.npy", np.eye(2), [1, 2])
    with pytest.raises(
        InputError, match=r"K.csv: a kernel matrix is written as .npy or, for LIBSVM, as .libsvm"
    ):
        write_gram(tmp_path / "K.csv", np.eye(2))
    with pytest.raises(InputError, match="2 rows and labels of shape"):
        write_gram(tmp_path / "K.svm", np.eye(2), [1])
    with pytest.raises(InputError, match="labels in LIBSVM's format are numbers"):
        write_gram(tmp_path / "K.svm", np.eye(2), ["spam", "ham"])
    with pytest.raises(InputError, match="label of row 1 is not a finite"):
        write_gram(tmp_path / "K.svm", np.eye(2), [1, np.nan])
    with pytest.raises(InputError, match="nan in row 0"):
        write_gram(tmp_path / "K.svm", np.array([[np.nan]]))
    with pytest.raises(InputError, match="cannot write"):
        write_gram(tmp_path / "none" / "K.npy", np.eye(2))
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "K.libsvm"
    write_gram(path, np.eye(2))
    before = path.read_bytes()
    monkeypatch.setattr("textsvm.gram.files._libsvm_lines", lambda *_: (_ for _ in [1 / 0]))
    with pytest.raises(ZeroDivisionError):
        write_gram(path, np.ones((2, 2)))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_matrix_that_is_right_is_not_copied():
    matrix = gaussian(30)[0].astype(np.float32)
    assert check_gram(matrix) is matrix
    assert check_block(matrix[:5], 30).base is matrix
    assert check_gram(matrix.astype(np.float64)).dtype == np.float32
    np.testing.assert_array_equal(check_gram([[1, 2], [2, 3]]), [[1, 2], [2, 3]])


def test_symmetric_within_what_float32_leaves():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1500, 40)).astype(np.float32)
    scaled = x * np.logspace(-2, 2, 1500, dtype=np.float32)[:, None]
    product = scaled @ scaled.T
    check_gram(product * (1 + 1e-6 * rng.standard_normal(product.shape)))
    wrong = product.copy()
    wrong[1200, 3] += 0.01 * abs(product).max()
    with pytest.raises(InputError, match=r"in row 3, column 1200 and .* the other way round"):
        check_gram(wrong)


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ("text", "not an array of real numbers"),
        ([["a"]], "not an array of real numbers"),
        ([[1, 2], [3]], "not an array of real numbers"),
        ([[None, 2], [3, 4]], "not an array of real numbers|nan in row 0"),
        (5.0, r"the shape \(\)"),
    ],
)
def test_what_is_no_matrix(matrix, sentence):
    with pytest.raises(InputError, match=sentence):
        check_gram(matrix)


def test_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
    def save(*_, **__):
        raise OSError("16 requested and 4 written")  # all that NumPy says of it

    monkeypatch.setattr(np, "save", save)
    (tmp_path / "K.npy").write_bytes(b"precious")
    with pytest.raises(InputError, match=r"4 written; is the disk full\?; nothing was changed"):
        write_gram(tmp_path / "K.npy", np.eye(2, dtype=np.float32))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"precious"]
