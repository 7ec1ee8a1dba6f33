"""Without a GPU: every .cu compiles for every architecture, with all defines in use, without spills.

One architecture is the judge of all defines. Sources differ in nothing but instructions from Ampere on, so
the others share the defines out among them; each compiles every .cu, in haste: with less optimisation, in
half the time, where that will do.

NVRTC needs neither a driver nor a card. It comes with `pip install nvidia-cuda-nvrtc`, or with CuPy.
"""

import importlib
import pkgutil
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import textsvm
from textsvm.kernels.edit import cuda as edit_cuda
from textsvm.kernels.gap import cuda as gap_cuda
from textsvm.kernels.gap import cuda as gap_lanes
from textsvm.kernels.mers import cuda as mer_distances_cuda
from textsvm.kernels.mers import gapped_cuda as gapped_dense_cuda
from textsvm.linalg import packed_cuda, products_cuda, rows_cuda, vectors_cuda
from textsvm.runtime import device
from textsvm.runtime.parallel import n_threads
from textsvm.solvers import crammer_singer_cuda, newton_cuda, shards_cuda, smo_cuda
from textsvm.solvers.cuda_queue import Done
from wheels.kernels_cuda13 import build

OF_CLASSES = {"State": crammer_singer_cuda.STATE, "Arrays": crammer_singer_cuda.ARRAYS}
#: Sources whose structs have twins in NumPy.
STRUCTS = {
    smo_cuda.SOURCE: {"State": smo_cuda.STATE, "Arrays": smo_cuda.ARRAYS},
    crammer_singer_cuda.ROUNDS_SOURCE: OF_CLASSES,
    crammer_singer_cuda.SET_SOURCE: OF_CLASSES,
    shards_cuda.SOURCE: {"Part": shards_cuda.PART},
    "edit.cu": {"Task": edit_cuda.TASK},
    gapped_dense_cuda.SOURCE: {"Texts": gapped_dense_cuda.TEXTS},
    "gap.cu": {"Task": gap_cuda.TASK, "Output": gap_cuda.OUTPUT, "Lane": gap_lanes.LANE},
    "mers.cu": {"Task": mer_distances_cuda.TASK},
    "products.cu": {"Products": products_cuda.PRODUCTS},
    "vectors.cu": {"Work": vectors_cuda.WORK},
    "vector_tiles.cu": {"Work": vectors_cuda.WORK},
    packed_cuda.SOURCE: {"PackedRows": packed_cuda.ROWS, "PackedLists": packed_cuda.LISTS},
    "newton.cu": {"Pass": rows_cuda.PASS, "Lists": rows_cuda.LISTS, "Gradients": newton_cuda.GRADIENTS},
}
C_TYPES = {"int": np.int32, "int64": np.int64, "float": np.float32, "double": np.float64}
JUDGE, OTHERS = 90, [75, 80, 86, 89, 100, 120]
HASTE = "--Ofast-compile=mid"
MAX_SPILL = {JUDGE: 64}  # bytes of local memory a thread that registers may overflow into


def nvrtc():
    """The library, from the wheel or the system; skips where there is none."""
    library = build.nvrtc()
    if library is None:
        pytest.skip("no CUDA compiler library here: pip install nvidia-cuda-nvrtc")
    return library


def define_sets():
    """(source, defines) of every module that launches kernels."""
    sets = []
    for module in pkgutil.walk_packages(textsvm.__path__, "textsvm."):
        if not module.name.endswith("__main__"):
            for entry in getattr(imported(module.name), "DEFINE_SETS", []):
                if entry not in sets:
                    sets.append(entry)
    return sets


def imported(name):
    """A module, or None if it is for a package that is not installed, such as onnx."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "textsvm":
            raise
        return None


def share_of(architecture):
    """The judge's are all; of each .cu, the others take turns, and have one at least."""
    sets = define_sets()
    if architecture == JUDGE:
        return sets
    turn, share = OTHERS.index(architecture), []
    for file in sorted({source for source, _ in sets}):
        own = [entry for entry in sets if entry[0] == file]
        share += own[turn :: len(OTHERS)] or [own[turn % len(own)]]
    return share


def compile_cu(library, source, defines, architecture, *more):
    """0 or an error, and NVRTC's log with ptxas's report."""
    options = [*device.compile_options(defines), *build.CUPY_OPTIONS, "--ptxas-options=-v", *more]
    options.append(f"-arch=sm_{architecture}")
    code, log = build.compile_source(library, device.source_text(source), options)
    return int(not code), log


def compile_in_haste(library, source, defines, architecture):
    """As `compile_cu`, which does it where haste is not enough, or unknown to an older NVRTC."""
    code, log = compile_cu(library, source, defines, architecture, HASTE)
    return (code, log) if code == 0 else compile_cu(library, source, defines, architecture)


def spilled(log):
    """Bytes of spill stores and loads of each kernel in ptxas's report."""
    return [int(a) + int(b) for a, b in re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)]


def test_every_cu_is_compiled_by_some_module():
    files = {f.name for f in device.kernels_folder().glob("*.cu")}
    assert files == {source for source, _ in define_sets()}


def test_the_others_share_all_defines_and_each_has_every_cu():
    shares = [share_of(architecture) for architecture in OTHERS]
    assert {entry for share in shares for entry in share} == set(define_sets())
    for share in shares:
        assert {source for source, _ in share} == {source for source, _ in define_sets()}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [JUDGE, *OTHERS])
def test_compiles(architecture):
    library, sets = nvrtc(), share_of(architecture)
    compiled = compile_cu if architecture == JUDGE else compile_in_haste
    with ThreadPoolExecutor(n_threads()) as pool:
        results = list(pool.map(lambda entry: compiled(library, *entry, architecture), sets))
    for (source, defines), (code, log) in zip(sets, results, strict=True):
        what = f"{source} {dict(defines)} for sm_{architecture}"
        assert code == 0, f"{what}: {log}"
        spills = spilled(log)
        assert spills, f"{what}: no report from ptxas"
        assert max(spills) <= MAX_SPILL.get(architecture, 10**6), f"{what}: spills {spills} bytes"


def test_a_spill_would_be_seen():
    log = "ptxas info : 8 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads"
    assert spilled(log) == [84]


def fields_of(text, name):
    """(field, NumPy type) of a struct in the text of a .cu, in order; pointers are uint64."""
    body = re.search(rf"struct {name} {{(.*?)\n?}};", text, re.DOTALL)[1]
    fields = []
    for declaration in re.sub(r"//[^\n]*", "", body).split(";"):
        if declaration.strip():
            kind, names = re.fullmatch(r"\s*(?:const )?(\w+)(\*? .+)", declaration, re.DOTALL).groups()
            first_is_pointer = names.startswith("*")
            for each in names.removeprefix("*").split(","):
                pointer = first_is_pointer or "*" in each
                field = re.findall(r"\w+", each)[-1]
                fields.append((field, np.dtype(np.uint64 if pointer else C_TYPES[kind])))
    return fields


@pytest.mark.parametrize("source", STRUCTS)
def test_structs_are_those_of_numpy(source):
    for name, twin in STRUCTS[source].items():
        assert fields_of(device.source_text(source), name) == [(f, twin[f]) for f in twin.names]
        assert twin.isalignedstruct


@pytest.mark.parametrize("source", STRUCTS)
def test_the_compiler_lays_structs_out_as_numpy_does(source, monkeypatch):
    text = device.source_text(source)
    for name, twin in STRUCTS[source].items():
        text += f'static_assert(sizeof({name}) == {twin.itemsize}, "size");\n'
        for field, (_, offset) in twin.fields.items():
            text += f'static_assert(__builtin_offsetof({name}, {field}) == {offset}, "{field}");\n'
    monkeypatch.setattr(device, "source_text", lambda _: text)
    *_, defines = (defines for other, defines in define_sets() if other == source)
    code, log = compile_in_haste(nvrtc(), source, defines, 75)
    assert code == 0, log


def test_why_a_problem_is_done_has_the_numbers_of_the_header():
    names = re.search(r"enum {(.*?)}", device.source_text(smo_cuda.SOURCE))[1].strip().split(", ")
    assert names == [done.name for done in Done]
    assert [*Done] == [*range(len(names))]


def test_what_states_begin_with_has_the_places_of_the_shards():
    words = re.findall(r"WORD_(\w+) = (\d+)", device.source_text(shards_cuda.SOURCE))
    assert len(words) == 3
    for slots in (smo_cuda.STATE, crammer_singer_cuda.STATE):
        assert {name: slots.names.index(name.lower()) for name, _ in words} == {
            name: int(place) for name, place in words
        }


def test_headers_are_part_of_the_text():
    folder = device.kernels_folder()
    headers = {header.name: header.read_text() for header in folder.glob("*.cuh")}
    texts = [device.source_text(source.name) for source in folder.glob("*.cu")]
    assert all(text.startswith(headers["common.cuh"]) for text in texts)
    for header in headers.values():
        assert any(header in text for text in texts)
    assert headers["workingset.cuh"] in device.source_text("smo.cu")
