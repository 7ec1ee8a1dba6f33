"""Without a GPU: every .cu compiles for every architecture with all defines in use, without spills.

NVRTC needs neither a driver nor a card. It comes with `pip install nvidia-cuda-nvrtc`, or with CuPy.
"""

import ctypes
import importlib
import pkgutil
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import textsvm
from textsvm import device
from textsvm.kernels import edit_cuda, gap_cuda, gap_lanes
from textsvm.parallel import n_threads

ARCHITECTURES = [75, 80, 86, 89, 90, 100, 120]
MAX_SPILL = {90: 64}  # bytes of local memory a thread that registers may overflow into


def nvrtc():
    """The library, from the wheel or the system; skips where there is none."""
    folders = [Path(entry) / "nvidia" for entry in sys.path]
    found = sorted(str(f) for folder in folders for f in folder.glob("*/lib/libnvrtc.so.[0-9]*"))
    for name in [*found, "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    pytest.skip("no CUDA compiler library here: pip install nvidia-cuda-nvrtc")


def define_sets():
    """(source, defines) of every module that launches kernels."""
    sets = []
    for module in pkgutil.walk_packages(textsvm.__path__, "textsvm."):
        if not module.name.endswith("__main__"):
            for entry in getattr(importlib.import_module(module.name), "DEFINE_SETS", []):
                if entry not in sets:
                    sets.append(entry)
    return sets


def compile_cu(library, source, defines, architecture):
    """NVRTC's return code and log, the log with ptxas's report."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = device.source_text(source).encode()
    options = [o.encode() for o in device.compile_options(defines)]
    options += [f"-arch=sm_{architecture}".encode(), b"-ftz=true", b"--ptxas-options=-v"]
    created = library.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None)
    assert created == 0
    code = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log.value.decode(errors="replace")


def spilled(log):
    """Bytes of spill stores and loads of each kernel in ptxas's report."""
    return [int(a) + int(b) for a, b in re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)]


def test_every_cu_is_compiled_by_some_module():
    files = {f.name for f in device.kernels_folder().glob("*.cu")}
    assert files == {source for source, _ in define_sets()}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture):
    library, sets = nvrtc(), define_sets()
    with ThreadPoolExecutor(n_threads()) as pool:
        results = list(pool.map(lambda entry: compile_cu(library, *entry, architecture), sets))
    for (source, defines), (code, log) in zip(sets, results, strict=True):
        what = f"{source} {dict(defines)} for sm_{architecture}"
        assert code == 0, f"{what}: {log}"
        spills = spilled(log)
        assert spills, f"{what}: no report from ptxas"
        assert max(spills) <= MAX_SPILL.get(architecture, 10**6), f"{what}: spills {spills} bytes"


def test_a_spill_would_be_seen():
    log = "ptxas info : 8 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads"
    assert spilled(log) == [84]


#: Structures that NumPy lays out for a .cu: (source, name there, dtype).
STRUCTURES = [
    ("edit.cu", "Task", edit_cuda.TASK),
    ("gap.cu", "Task", gap_cuda.TASK),
    ("gap.cu", "Output", gap_cuda.OUTPUT),
    ("gap.cu", "Lane", gap_lanes.LANE),
]


def members(source, name):
    """(name, bytes) of the members of a structure, as its text has them."""
    text = re.sub(r"//.*", "", device.source_text(source))
    (body,) = re.findall(rf"struct {name} \{{(.*?)\}};", text, re.S)
    sizes = {"int": 4, "float": 4, "int64": 8}
    for line in filter(str.strip, body.split(";")):
        kind, names = re.fullmatch(r"\s*(?:const )?(\w+)( .*|\*.*)", line, re.S).groups()
        for each in names.split(","):
            yield re.findall(r"\w+", each)[-1], 8 if "*" in each else sizes[kind]


@pytest.mark.parametrize(("source", "name", "dtype"), STRUCTURES)
def test_structures_have_the_layout_of_the_cu(source, name, dtype):
    offset, expected = 0, {}
    for member, size in members(source, name):
        offset = -(-offset // size) * size
        expected[member] = offset
        offset += size
    assert {member: dtype.fields[member][1] for member in dtype.names} == expected
    assert dtype.itemsize == -(-offset // 8) * 8
