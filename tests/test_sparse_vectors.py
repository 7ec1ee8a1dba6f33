"""Which way products of sparse vectors are made on a GPU: the one that was measured to be the fastest."""

from dataclasses import replace

import pytest

from textsvm.kernels.vectors.cuda import Sparsity, choose

ROOM = 40 << 30
#: Sets, with what an H200 took for their whole Gaussian matrix by columns, ms, at the share of vectors that
#: made a feature dense.
A9A = Sparsity(n=32_561, n_features=123, full=66, listed=2.9e6, small=True, room=ROOM)
W8A = Sparsity(n=49_749, n_features=300, full=154, listed=8.3e6, small=True, room=ROOM)
IJCNN1 = Sparsity(n=49_990, n_features=22, full=22, listed=0.0, small=False, room=ROOM)
SECTOR = Sparsity(n=6_412, n_features=55_197, full=884, listed=2.67e7, small=False, room=ROOM)
REUTERS = Sparsity(n=21_578, n_features=47_723, full=450, listed=1.489e8, small=False, room=ROOM)
COLUMNS = {
    "a9a": (A9A, 7.9),
    "w8a": (W8A, 18.7),
    "ijcnn1": (IJCNN1, 19.6),
    "sector, 0.02": (replace(SECTOR, full=1310, listed=1.627e7), 3.1),
    "sector, 0.05": (replace(SECTOR, full=502, listed=5.07e7), 2.3),
    "sector, 0.15": (replace(SECTOR, full=126, listed=1.546e8), 2.6),
    "sector, 0.3": (replace(SECTOR, full=61, listed=2.643e8), 3.9),
    "Reuters, 0.02": (replace(REUTERS, full=671, listed=8.754e7), 14.7),
    "Reuters, 0.05": (replace(REUTERS, full=232, listed=3.008e8), 15.3),
    "Reuters, 0.15": (replace(REUTERS, full=55, listed=8.393e8), 28.0),
    "Reuters, 0.3": (replace(REUTERS, full=21, listed=1.5339e9), 45.5),
}
#: Dense vectors there, 10^9 values a second of whole matrices: numbers of each, and whether they are small.
DIGITS = {
    (16, True): 533,
    (123, True): 507,
    (784, True): 333,
    (2000, True): 209,
    (16, False): 280,
    (22, False): 280,
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_take_about_what_is_predicted(name):
    sparsity, measured = COLUMNS[name]
    assert measured / 1.5 < 1e3 * sparsity.seconds["columns"] < measured * 1.5


@pytest.mark.parametrize(("d", "small"), DIGITS)
def test_digits_take_about_what_is_predicted(d, small):
    n, measured = 40_000, DIGITS[d, small]
    seconds = Sparsity(n, d, d, 0.0, small, ROOM).seconds["digits"]
    assert measured / 1.2 < n * n / seconds / 1e9 < measured * 1.2


@pytest.mark.parametrize(
    ("sparsity", "fastest"),
    [(A9A, "digits"), (W8A, "digits"), (IJCNN1, "digits"), (SECTOR, "columns"), (REUTERS, "columns")],
)
def test_the_fastest_is_chosen(sparsity, fastest):
    name, description = choose(sparsity)
    assert name == fastest
    assert f"predicted {sparsity.seconds[fastest]:.2g} s" in description
    assert sparsity.seconds[fastest] == min(sparsity.seconds.values())


def test_wide_vectors_are_sparse_even_where_digits_are_possible():
    assert choose(replace(REUTERS, n_features=20_000))[0] == "columns"


@pytest.mark.parametrize("change", [{"room": 32_561 * 128 * 10}, {"room": 0}, {"n_features": 50_000}])
def test_without_room_there_are_columns(change):
    name, description = choose(replace(A9A, **change))
    assert name == "columns"
    assert description.startswith("sparse products with 66 features dense and the others as lists")


@pytest.mark.parametrize("field", ["full", "listed", "n"])
def test_more_work_takes_longer(field):
    more = replace(REUTERS, **{field: 10 * getattr(REUTERS, field)})
    assert more.seconds["columns"] > REUTERS.seconds["columns"]


def test_nothing_to_do():
    assert choose(Sparsity(0, 0, 0, 0.0, True, 0))[0] == "columns"
