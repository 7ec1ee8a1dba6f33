"""Parquet: of hostile values and names, and damaged. Nothing without PyArrow."""

import io

from . import _whole
from ._mutations import mutated
from ._reading import Target
from .read_csv import OPTIONS

try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    pyarrow = None

NAMES = ("text", "label", "score", "group", "id", "split", "a\x1b[31m\nb", "", "text", "x" * 400)


def written(columns, names) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(pyarrow.table(columns, names=names), stream)
    return stream.getvalue()


def not_utf8(values) -> "pyarrow.Array":
    """A column that says it is text, of bytes that are none."""
    return pyarrow.array(values, pyarrow.binary()).view(pyarrow.string())


def kinds():
    yield pyarrow.array(["a", "b\x1b", None])
    yield not_utf8([b"a", b"\xff\xfe", b"c"])
    yield pyarrow.array([b"a", b"\xff", None])
    yield pyarrow.array([1.5, float("nan"), None])
    yield pyarrow.array([2**63 - 1, -(2**63), 0])
    yield pyarrow.array([[1, 2], None, []])
    yield pyarrow.array([{"a": b"\xff"}, {"a": None}, None])
    yield pyarrow.array([2**40, 0, -(2**40)], pyarrow.timestamp("s"))
    yield pyarrow.array([2**62, 0, -(2**62)], pyarrow.timestamp("ns", "No/Where"))
    yield pyarrow.array([2**40, 0, -1], pyarrow.duration("s"))
    yield pyarrow.array(["x", "y", "x"]).dictionary_encode()
    yield pyarrow.array([None, None, None])
    yield pyarrow.array([True, False, None])


def seeds() -> list[bytes]:
    if pyarrow is None:
        return []
    found = [written([["a", "b"], ["x", "y"], [1.0, 2.0]], ["text", "label", "score"])]
    return found + [written([each, ["x", "y", "z"]], ["text", "label"]) for each in kinds()]


def make(random, given):
    if random.random() < 0.5:
        return mutated(random, given, (b"PAR1", b"\x15", b"\x00\x00", b"\xff\xff\xff\xff"))
    count = random.randint(1, 5)
    return written(random.sample(list(kinds()), count), random.sample(NAMES, count))


_target = Target("t.parquet", seeds, "parquet", options=OPTIONS, make=make, whole=_whole.parquet)


def run(seed: int) -> None:
    if pyarrow is not None:
        _target.run(seed)
