"""Machine code from the wheel of wheels/kernels_cuda13 instead of compilation; CuPy is imitated."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textsvm.cli.devices import sources
from textsvm.runtime import device
from wheels.kernels_cuda13 import build

PROBE = build.Module(device.source_text("probe.cu"), device.compile_options())
OF_CUPY = build.Module("#include <cupy/carray.cuh>\n", ("--std=c++17",), "headers")
WORDS = st.text("-Dxy=1 ", max_size=5)


class Cupy:
    """The part of CuPy that loads modules: what was loaded and what was compiled."""

    def __init__(self, capability="90", refuses=False):
        self.loaded, self.compiled = [], []
        loaded = self.loaded

        class Module:
            def load(self, code):
                if refuses:
                    raise RuntimeError("CUDA_ERROR_NO_BINARY_FOR_GPU")
                loaded.append(code)

        self.compiler = SimpleNamespace(_compile_module_with_cache=self.compile_module)
        self.cuda = SimpleNamespace(
            compiler=self.compiler,
            function=SimpleNamespace(Module=Module),
            Device=lambda: SimpleNamespace(compute_capability=capability),
            runtime=SimpleNamespace(getDevice=lambda: 0),
        )
        self._core = SimpleNamespace(core=SimpleNamespace(CUPY_CACHE_KEY="headers"))
        device.load_shipped_code(self)

    def compile_module(self, source, options=(), **settings):
        self.compiled.append(source)
        return "compiled"

    def RawModule(self, code, options):
        """As CuPy's, which adds folders to the options."""

        def compile_raw():
            settings = {"arch": None, "extra_source": "text", "backend": "nvrtc", "jitify": False}
            self.compiler._compile_module_with_cache(code, ("-I/somewhere", *options), **settings)

        return SimpleNamespace(compile=compile_raw)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Folder of an installed package without archives."""
    folder = tmp_path / device.SHIPPED
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, device.SHIPPED, raising=False)
    for function in (device.shipped_archive, device._load):
        function.cache_clear()
    yield folder
    for function in (device.shipped_archive, device._load):
        function.cache_clear()


def write(package, target, modules, code="code of {}"):
    with ZipFile(package / f"{target}.zip", "w") as archive:
        for module in modules:
            archive.writestr(module.digest(target), code.format(target))


def loads(cupy, module):
    """Load a module as CuPy does, and say whether it was compiled."""
    before = len(cupy.compiled)
    cupy.compiler._compile_module_with_cache(module.source, module.options, backend="nvrtc")
    return len(cupy.compiled) == before


@given(st.text(max_size=9), st.lists(WORDS), st.text("ab"), st.sampled_from(build.TARGETS), st.data())
def test_a_digest_depends_on_all_that_the_compiler_reads(source, options, headers, target, data):
    source = f"#include <cupy/{source}"
    digest = device.code_digest(source, options, headers, target)
    folders = ["-I/a", "-I/b"]
    assert digest == device.code_digest(
        source, folders + data.draw(st.permutations(options)), headers, target
    )
    others = [
        device.code_digest(source + " ", options, headers, target),
        device.code_digest(source, [*options, "-DMORE=1"], headers, target),
        device.code_digest(source, options, headers + "a", target),
        *(device.code_digest(source, options, headers, each) for each in build.TARGETS if each != target),
    ]
    assert digest not in others
    assert len({*others}) == len(others)


@pytest.mark.parametrize(
    ("capability", "target"),
    [(70, None), (75, "sm_75"), (80, "sm_80"), (87, "sm_86"), (89, "sm_89"), (90, "sm_90"), (103, "sm_100"),
     (110, None), (120, "sm_120"), (121, "sm_120"), (130, "compute_120")],
)  # fmt: skip
def test_the_archive_of_a_card(package, capability, target):
    for each in build.TARGETS:
        write(package, each, [PROBE])
    found = device.shipped_archive(capability)
    assert (found and found[0]) == target
    cupy = Cupy(str(capability))
    assert loads(cupy, PROBE) == (target is not None)
    assert cupy.loaded == ([f"code of {target}".encode()] if target else [])


def test_a_wheel_has_every_specialisation(package, monkeypatch):
    """As `device.load` asks for it, with what CuPy adds to the options."""
    write(package, "sm_90", build.own_modules())
    cupy = Cupy()
    monkeypatch.setattr(device, "cupy", lambda: cupy)
    for source, defines in sources():
        device.load(source, defines)
    assert len(cupy.loaded) == len(sources()) > 100
    assert cupy.compiled == []


def test_kernels_of_cupy_need_the_same_headers(package):
    write(package, "sm_90", [OF_CUPY, build.Module(OF_CUPY.source, ("-DX=1",), "other")])
    cupy = Cupy()
    assert loads(cupy, OF_CUPY)
    assert not loads(cupy, build.Module(OF_CUPY.source, ("-DX=1",)))


@pytest.mark.parametrize("damage", ["truncated", "byte", "empty", "text", "directory", "foreign", "none"])
def test_a_damaged_or_foreign_archive_means_compilation(package, damage):
    path = package / "sm_90.zip"
    write(package, "sm_90", [PROBE], code="code " * 100)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    if damage == "directory":
        path.unlink()
        path.mkdir()
    elif damage == "foreign":  # renamed: the target is part of the digest
        write(package, "sm_80", [PROBE])
        path.unlink()
        (package / "sm_80.zip").rename(path)
    elif damage == "none":
        path.unlink()
    else:
        kinds = {"truncated": content[:150], "byte": content, "empty": b"", "text": b"no archive"}
        path.write_bytes(kinds[damage])
    cupy = Cupy()
    assert not loads(cupy, PROBE)
    assert cupy.loaded == []


def test_what_the_driver_refuses_and_special_settings_are_compiled(package):
    write(package, "sm_90", [PROBE])
    assert not loads(Cupy(refuses=True), PROBE)
    cupy = Cupy()
    for special in ({"name_expressions": ("f<1>",)}, {"backend": "nvcc"}, {"arch": "80"}, {"to_ltoir": True}):
        assert cupy.compiler._compile_module_with_cache(PROBE.source, PROBE.options, **special) == "compiled"
    assert loads(cupy, PROBE)


def test_without_the_package_and_with_another_cupy():
    assert not loads(Cupy(), PROBE)
    other = SimpleNamespace(
        cuda=SimpleNamespace(compiler=SimpleNamespace()), _core=SimpleNamespace(core=SimpleNamespace())
    )
    device.load_shipped_code(other)
    assert vars(other.cuda.compiler) == {}


@pytest.mark.parametrize(("target", "begins"), [("sm_90", b"\x7fELF"), ("compute_120", b"//\n// Generated")])
def test_an_archive_is_built_without_a_gpu(package, target, begins):
    if build.nvrtc() is None:
        pytest.skip("no CUDA compiler library here: pip install nvidia-cuda-nvrtc")
    archives = []
    for _ in range(2):
        path = build.build([PROBE], target, package)
        archives.append(path.read_bytes())
        with ZipFile(path) as archive:
            assert archive.read(PROBE.digest(target)).lstrip().startswith(begins)
    assert archives[0] == archives[1]


def test_an_error_of_a_source_ends_the_build(package):
    if build.nvrtc() is None:
        pytest.skip("no CUDA compiler library here: pip install nvidia-cuda-nvrtc")
    with pytest.raises(SystemExit, match=r"sm_90.*error"):
        build.build([build.Module("int f() { return g(); }", ())], "sm_90", package)


def test_kernels_of_cupy_are_recorded():
    modules, recorded = build.cupy_modules(), json.loads(build.RECORDED.read_text("utf-8"))
    assert recorded["cupy"] in (build.HERE.parents[1] / ".ci" / "kernels").read_text("utf-8")
    assert len({module.digest("sm_90") for module in modules}) == len(modules) > 100
    assert all("#include <cupy/" in module.source and "__global__" in module.source for module in modules)


#: A training with its predictions: a digest of all decision values, and the number of compiled modules.
PROGRAM = """
import hashlib, sys, textsvm
from textsvm.cli.devices import trainings
from textsvm.runtime import device
compiler, compiled = device.cupy().cuda.compiler, []
compile_source = compiler._compile_using_nvrtc_no_warning
def compile_counted(source, *rest):
    compiled.append(source)
    return compile_source(source, *rest)
compiler._compile_using_nvrtc_no_warning = compile_counted
predict, bits = textsvm.SVC.predict, hashlib.sha256()
def predict_digested(model, x):
    bits.update(model.decision_function(x).tobytes())
    return predict(model, x)
textsvm.SVC.predict = predict_digested
trainings("cuda")[sys.argv[1]]()
print(bits.hexdigest(), len(compiled))
"""


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["spectrum", "sparse vectors", "gap"])
def test_shipped_and_compiled_code_give_the_same_bits(name, tmp_path):
    if device.find_spec(device.SHIPPED) is None:
        pytest.skip("the wheel of .ci/kernels is not installed")
    hide = f"import sys; sys.modules[{device.SHIPPED!r}] = None\n"
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", program, name],
            env=os.environ | {"CUPY_CACHE_DIR": str(tmp_path / str(k))},
            stdout=subprocess.PIPE,
            text=True,
        )
        for k, program in enumerate([PROGRAM, hide + PROGRAM])
    ]
    (bits, compiled), (other_bits, all_compiled) = (program.communicate()[0].split() for program in programs)
    assert bits == other_bits
    assert int(compiled) == 0 < int(all_compiled)
