""".npy and .npz: headers as Python's literals, shapes, kinds of numbers, sparse matrices."""

import io
import zipfile

import numpy as np

from . import _whole
from ._mutations import mutated
from ._reading import Target

TOKENS = (
    *(
        b"'descr'",
        b"'<f8'",
        b"'|O'",
        b"'|V0'",
        b"'<U9'",
        b"'<M8[s]'",
        b"'|S0'",
        b"[('a','<f8')]",
        b"'fortran_order'",
        b"True",
        b"False",
    ),
    *(
        b"'shape'",
        b"(",
        b")",
        b",",
        b"{",
        b"}",
        b"(-1, 3)",
        b"(0, 3)",
        b"(99999999999, 99999999)",
        b"(3,)",
        b"\x93NUMPY\x02\x00",
        b"\xff\xff",
    ),
)
KINDS = ("f8", "f4", "f2", "i8", "u1", "b", "c8", "M8[s]", "U3", "S2", "O", "V4")


def npy(values) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(values), allow_pickle=True)
    return stream.getvalue()


def seeds() -> list[bytes]:
    found = [npy(np.arange(6).reshape(2, 3).astype(kind)) for kind in KINDS[:6]]
    return [
        *found,
        npy(np.array([[1, np.nan]])),
        npy(np.asfortranarray(np.eye(3))),
        npy(np.float64(3)),
        npy([1, 2]),
    ]


def array(random) -> bytes:
    """An array of some kind and shape."""
    shape = tuple(random.choice((0, 1, 2, 3, 5)) for _ in range(random.choice((0, 1, 1, 2, 2, 2, 3))))
    values = np.array([random.choice((0, 1, 2, 3, -1, 7)) for _ in range(int(np.prod(shape)))]).reshape(shape)
    try:
        return npy(values.astype(random.choice(KINDS)))
    except (ValueError, TypeError):
        return npy(values)


def sparse(random) -> dict[str, bytes]:
    """Nearly what `scipy.sparse.save_npz` writes."""
    parts = {
        "format": npy(np.array(random.choice((b"csr", b"csc", b"coo", b"\xff", b"csr")))),
        "shape": npy([2, 3]), "data": npy([1.0, 2.0]), "indices": npy([0, 2]), "indptr": npy([0, 1, 2]),
    }  # fmt: skip
    for name in random.sample(sorted(parts), random.choice((0, 1, 1, 2))):
        parts[name] = array(random)
    return parts


def make(random, given):
    """A .npy, or a .npz around some."""
    if random.random() < 0.4:
        return mutated(random, given, TOKENS)
    parts = sparse(random) if random.random() < 0.5 else {}
    for name in random.sample(("X", "y", "ids", "labels", "other", "a\x1b\n", "../x"), random.randint(0, 4)):
        parts[name] = mutated(random, given, TOKENS) if random.random() < 0.3 else array(random)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in parts.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


run = Target("t.npy", seeds, make=make, options=({}, {"target": "y"}), whole=_whole.arrays).run
