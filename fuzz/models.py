"""Changed model files: damage must be noticed, and whatever is said of a hostile file is one sentence.

A case is a number. Half of the cases are damage: bits, bytes, lost, zeroed and doubled pieces of a file of
`seeds/models`; no such file may load. The others are structured: values of the header and arrays are changed,
and the digest belongs to the change; loading and deciding may give any values, or `InputError`, and nothing
else.

`python fuzz/models.py` writes the seeds anew: a small model of every kernel, estimator and form.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

import textsvm
from textsvm import as_estimator
from textsvm.errors import InputError
from textsvm.model.file import load, sealed
from textsvm.model.trained import as_model
from textsvm.sources import texts as texts_source

SEEDS = Path(__file__).resolve().parent / "seeds" / "models"
TEXTS = ["a banana", "the bandana", "banana bread", "on monday", "a sunday", "monday, tuesday"]
LABELS = ["fruit", "cloth", "fruit", "cloth", "cloth", "cloth"]
THREE = ["fruit", "cloth", "fruit", "day", "day", "cloth"]
DNA = ["acgtacgtaa", "acgtaccgta", "ggtacgtacc", "ttttacgtac", "acacacacac", "gggttttaaa"]
#: Bounds that go by the longest support vector leave large parameters to these.
LONG = [" ".join(TEXTS[i:] + TEXTS[:i]) * 12 for i in range(6)]
LONG_DNA = ["".join(DNA[i:] + DNA[:i]) * 15 for i in range(6)]
NEW = ["a banana on monday", "", "acgtacgtaca", "日本 banana", LONG[1][:900], LONG_DNA[1]]
#: Kernels that have a seed of long texts, too.
ONES_LONG = (
    "spectrum_range", "gap", "gap_weights", "bounded_gap", "dna_gapped", "dna_mismatch", "dna_gkm",
)  # fmt: skip
ROWS = np.random.default_rng(0).normal(size=(6, 3))
SPARSE = csr_matrix(ROWS * (np.abs(ROWS) > 0.4))


def load_as_estimator(path: Path) -> Any:
    """The model of a file, held by an estimator."""
    return as_estimator(load(path))


#: Ways of loading.
LOADS = (load, load_as_estimator)
#: Symbols that join others, which are no control characters.
JOINERS = dict.fromkeys((0x200C, 0x200D))

#: What a parameter, a size or any value of a header is changed to.
VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 3, 5, 16, 33, 64, 100, 255, 400, 800, 1000, 100_000, 1 << 31, 1 << 40,
    (1 << 62) - 1, 1 << 64, 10**30, 10**400, -1, -(1 << 63), 0.0, 0.5, 1.0, 1e-300, 1e300, -0.5,
    float("nan"), float("inf"),
    "", "x", "auto", "scale", "words", "blosum62", "whitespace", "log", "idf", "intersection", "precomputed",
    "ovo", "crammer_singer", "isotonic", "\ud800", "\x1b[31m\n", "a" * 5000, [], {}, [1, 30], [1, 1 << 40],
    [0.5, 0.5], [[]], [1] * 1000, [0.0] * 999 + [1.0], {"name": "spectrum"}, {"name": "gap", "p": 5},
    {"name": "sum", "kernels": []}, {"bytes": 3}, {"datetime64": [1, "x"]}, {"date": "x"},
]  # fmt: skip
TYPES = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?"]
NUMBERS = [
    0,
    1,
    -1,
    -(1 << 63),
    2,
    255,
    1 << 31,
    1 << 40,
    1 << 62,
    1e-300,
    1e300,
    float("nan"),
    float("inf"),
    0.5,
]


def run(seed: int) -> None:
    """Try one changed file; AssertionError says what is wrong with how it was taken."""
    rng = np.random.default_rng(seed)
    name = list(seeds())[int(rng.integers(len(seeds())))]
    content = seeds()[name]
    damaged = bool(rng.integers(2))
    changed, how = _damaged(content, rng) if damaged else _structured(name, rng)
    if changed == content:
        return
    # Damage is noticed before the two ways of loading part.
    ways = (LOADS[seed % 2],) if damaged else LOADS
    loaded = _tried(changed, ways, f"{name}, seed {seed}: {how}")
    assert not (damaged and loaded), f"{name}, seed {seed}: {how}: a damaged file was loaded"


@lru_cache(maxsize=1)
def seeds() -> dict[str, bytes]:
    """The files that are changed, by their names."""
    return {path.stem: path.read_bytes() for path in sorted(SEEDS.glob("*.textsvm"))}


@cache
def _parts(name: str) -> tuple[str, dict[str, Any]]:
    """The header and the arrays of a seed."""
    from safetensors.numpy import load

    content = seeds()[name]
    outer = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return outer["__metadata__"]["textsvm"], load(content)


def _tried(content: bytes, ways: Sequence[Callable[[Path], Any]], case: str) -> bool:
    """Whether a model was loaded and decided, or refused in a sentence by every way of loading."""
    path = _place()
    path.write_bytes(content)
    sentences = []
    for read in ways:
        try:
            _decide(read(path))
            continue
        except InputError as error:
            sentences.append(str(error))
        except BaseException as error:
            raise AssertionError(f"{case}: {type(error).__name__}: {error}"[:1000]) from error
        assert len(sentences[-1]) < 600, f"{case}: {sentences[-1]}"
        assert sentences[-1].translate(JOINERS).isprintable(), f"{case}: {sentences[-1]!r}"
    return len(sentences) < len(ways)


@lru_cache(maxsize=1)
def _place() -> Path:
    return Path(tempfile.mkdtemp(prefix="textsvm-fuzz-")) / "m.textsvm"


def _decide(model: Any) -> None:
    """Predict examples of the model's input type."""
    trained = as_model(model)
    kernel = trained.kernel
    kind = None if kernel is None else kernel.structure.examples
    leaves = () if kernel is None else kernel.structure.leaves
    given: Any = NEW
    if any(leaf.structure.letters or leaf.structure.view.tokens == "blosum62" for leaf in leaves):
        given = ["acgtacgtaca", "", LONG_DNA[1]]
    if kind == "columns":
        given = {"text": NEW, "n": [float(i) for i in range(len(NEW))]}
    elif kind is None:
        given = np.zeros((2, 6))
    elif kind == "vectors":
        width = trained.support.n_features
        assert width is not None
        given = (
            ROWS[:, :width] if width <= 3 else csr_matrix(([1.0, 2.0], [0, width - 1], [0, 1, 2]), (2, width))
        )
    model.predict_proba(given) if trained.probabilities_by_default else model.predict(given)
    if isinstance(given, list) and trained.estimator_name != "OnlineSVC" and trained.support.index:
        textsvm.explain(trained, given)


def _damaged(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    a, b = sorted(rng.integers(0, len(content), 2).tolist())
    way = int(rng.integers(6))
    if way <= 1:
        changed = bytearray(content)
        for at in rng.integers(0, len(content), 1 if way == 0 else 4):
            changed[at] ^= 1 << int(rng.integers(8))
        return bytes(changed), f"bits flipped near {a}"
    if way == 2:
        return content[:a], f"cut off at {a}"
    if way == 3:
        return content[:a] + content[b:], f"bytes {a} to {b} lost"
    if way == 4:
        return content[:a] + bytes(b - a) + content[b:], f"bytes {a} to {b} zeroed"
    return content[:b] + content[a:], f"bytes {a} to {b} doubled"


def _structured(name: str, rng: np.random.Generator) -> tuple[bytes, str]:
    from safetensors.numpy import save as to_bytes

    text, arrays = _parts(name)
    header, arrays, said = json.loads(text), dict(arrays), []
    for _ in range(1 + int(rng.integers(3))):
        change = _change_header if rng.integers(2) else _change_array
        said.append(change(header if change is _change_header else arrays, rng))
    made = to_bytes(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        metadata={"textsvm": json.dumps(header)},
    )
    return sealed(made), "; ".join(said)


def _change_header(header: dict[str, Any], rng: np.random.Generator) -> str:
    places = [place for place in _places(header) if place[1] not in ("blake2b", "written_by")]
    kernels = [place for place in places if isinstance(place[0], dict) and "name" in place[0]]
    some = kernels if kernels and rng.integers(2) else places
    holder, key = some[int(rng.integers(len(some)))]
    before = str(holder[key])[:40]
    if rng.integers(12) == 0:
        del holder[key]
        return f"{key} ({before}) taken away"
    holder[key] = deepcopy(VALUES[int(rng.integers(len(VALUES)))])
    return f"{key}: {before} -> {str(holder[key])[:40]}"


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every value in a header, as what holds it and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


def _change_array(arrays: dict[str, Any], rng: np.random.Generator) -> str:
    if not arrays:
        return "no arrays"
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    array, way = arrays[name], int(rng.integers(8))
    with np.errstate(all="ignore"):
        if way == 0:
            del arrays[name]
        elif way == 1:
            arrays[name] = array[: int(rng.integers(len(array) + 1))] if array.ndim else array[None]
        elif way == 2:
            arrays[name] = array.astype(TYPES[int(rng.integers(len(TYPES)))])
        elif way == 3:
            arrays[name] = np.concatenate([array, array]) if array.ndim else array
        elif way == 4:
            arrays[name] = array.reshape((-1, *([1] * int(rng.integers(4)))))
        elif way == 5:
            arrays[name] = array[::-1].copy() if array.ndim else array
        elif array.size:
            changed = array.copy().reshape(-1)
            at = rng.integers(0, len(changed), 1 if way == 6 else len(changed))
            number = NUMBERS[int(rng.integers(len(NUMBERS)))]
            changed[at] = np.array(number).astype(array.dtype) if rng.integers(2) else changed[at[:1]] + 1
            arrays[name] = changed.reshape(array.shape)
    return f"array {name} changed ({way})"


def write_seeds() -> None:
    """Write a small model of every kind."""
    SEEDS.mkdir(parents=True, exist_ok=True)
    most = texts_source.MOST_SECONDS
    for name, (model, texts) in _models().items():
        texts_source.MOST_SECONDS = -1 if name.startswith("index") else most
        textsvm.save(model, SEEDS / f"{name}.textsvm", {"corpus": "fruit"}, texts)
    texts_source.MOST_SECONDS = most


def _models() -> dict[str, tuple[Any, bool]]:
    """Fitted models by their names, and whether their texts are saved."""
    from textsvm import SVC, SVR, CalibratedSVC, MultilabelSVC, OneClassSVM

    made: dict[str, tuple[Any, bool]] = {}
    for name, kernel in _kernels().items():
        dna = name.startswith("dna")
        made[f"kernel_{name}"] = SVC(kernel, C=5).fit(DNA if dna else TEXTS, LABELS), True
        if name in ONES_LONG:
            made[f"long_{name}"] = SVC(kernel, C=5).fit(LONG_DNA if dna else LONG, LABELS), True
    for strategy in ("ovr", "ovo", "crammer-singer"):
        machine = SVC(textsvm.Spectrum(p=2), multiclass=strategy).fit(TEXTS, THREE)
        made[f"classes_{strategy}"] = machine, True
    spectrum = textsvm.Spectrum(p=(1, 3), weight="log", idf=True)
    made["weights"] = SVC(spectrum).fit(TEXTS, THREE), False
    made["weights_intersection"] = SVC(textsvm.Spectrum(2, weight="intersection")).fit(TEXTS, LABELS), False
    made["regression"] = SVR(textsvm.Spectrum(2)).fit(TEXTS, [1.0, 2.0, 1.5, 7.0, 8.0, 9.0]), True
    made["one_class"] = OneClassSVM(textsvm.Spectrum(2)).fit(TEXTS), True
    labels = [["fruit"], ["cloth"], ["fruit", "day"], ["day"], ["fruit"], ["cloth", "day"]]
    made["multilabel"] = MultilabelSVC(textsvm.Spectrum(2), device="cpu").fit(TEXTS, labels), True
    for method in ("sigmoid", "isotonic"):
        calibrated = CalibratedSVC(SVC(textsvm.Spectrum(2)), method, cv=2, reject=0.6)
        made[f"calibrated_{method}"] = calibrated.fit(TEXTS * 3, THREE * 3), True
    K = textsvm.Spectrum(2)(TEXTS)
    made["precomputed"] = SVC("precomputed").fit(K, LABELS), True
    of_vectors = (
        textsvm.Gaussian(),
        textsvm.Linear(),
        textsvm.Polynomial(degree=2),
        textsvm.Sigmoid(gamma=0.1),
    )
    for kernel in of_vectors:
        made[f"vectors_{kernel.name}"] = SVC(kernel).fit(ROWS, LABELS), True
        made[f"sparse_{kernel.name}"] = SVC(kernel).fit(SPARSE, LABELS), True
    made["vectors_weights"] = SVC(textsvm.Linear()).fit(ROWS, LABELS), False
    made["sparse_weights"] = SVC(textsvm.Linear()).fit(SPARSE, THREE), False
    of_two = textsvm.Sum([textsvm.Linear(), textsvm.Gaussian(gamma="auto")])
    made["sparse_sum"] = SVC(of_two).fit(SPARSE.astype(np.float32), LABELS), True
    made["sparse_regression"] = SVR(textsvm.Linear()).fit(SPARSE, [1.0, 2.0, 1.5, 7.0, 8.0, 9.0]), True
    made["vectors_one_class"] = OneClassSVM(textsvm.Gaussian()).fit(ROWS), True
    made["default"] = SVC().fit(TEXTS * 3, THREE * 3), True
    made["weights_words"] = SVC(textsvm.Spectrum((1, 2), tokens="words")).fit(TEXTS, THREE), False
    weighing = {"fruit": 2.0, "cloth": 0.5}
    mixed = textsvm.Sum(
        [textsvm.Spectrum((1, 3), "log", idf=True, odds=True), textsvm.Spectrum((1, 2), "intersection")]
    )
    made["index"] = SVC(mixed).fit(TEXTS, THREE), True
    made["index_words"] = SVC(textsvm.Spectrum((1, 2), tokens="words")).fit(TEXTS, LABELS), True
    made["class_weight"] = SVC(textsvm.Spectrum(2), class_weight=weighing).fit(TEXTS, LABELS), True
    days = np.array(["2024-02-29", "1600-01-01", "2024-02-29"] * 2, "datetime64[D]")
    made["dates"] = SVC(textsvm.Spectrum(2)).fit(TEXTS, days), True
    both = textsvm.Sum([textsvm.On("text", textsvm.Spectrum(2)), textsvm.On("n", textsvm.Gaussian())])
    table = {"text": TEXTS, "n": [1.0, 2.0, 1.5, 7.0, 8.0, 9.0]}
    made["columns"] = SVC(both).fit(table, LABELS), True
    return made


def _kernels() -> dict[str, Any]:
    spectrum = textsvm.Spectrum
    return {
        "spectrum": spectrum(2),
        "spectrum_range": spectrum((1, 3), weight="log", idf=True),
        "spectrum_words": spectrum((1, 2), tokens="words"),
        "spectrum_intersection": spectrum(3, weight="intersection"),
        "gap": textsvm.GapWeighted(2, 0.3),
        "gap_weights": textsvm.GapWeighted(3, weights=(0.0, 1.0, 2.0)),
        "bounded_gap": textsvm.BoundedGap(2, 0.5, span=4),
        "edit": textsvm.EditDistance(0.1, relative=True),
        "dna_gapped": textsvm.GappedKmers(4, 1),
        "dna_gapped_canonical": textsvm.GappedKmers(4, 1, canonical=True),
        "dna_protein": spectrum(2, tokens="blosum62"),
        "dna_mismatch": textsvm.Mismatch(3, 1),
        "dna_gkm": textsvm.Gkm(4, 3, 1),
        "dna_gkm_full": textsvm.Gkm(4, 3, 2, filter="full", canonical=True),
        "sum": textsvm.Sum([spectrum(2), textsvm.EditDistance(0.1)], weights=[0.3, 0.7]),
        "product": textsvm.Product([spectrum(1), spectrum(2, tokens="words")]),
    }


if __name__ == "__main__":
    write_seeds() if len(sys.argv) == 1 else [run(int(seed)) for seed in sys.argv[1:]]
