"""Which device is chosen, and what is said when a GPU cannot be used."""

import importlib.machinery
import subprocess
import sys
import types

import numpy as np
import pytest

from textsvm.cli.console import device_line
from textsvm.errors import InputError
from textsvm.gram.base import allowed_bytes
from textsvm.runtime import device
from textsvm.runtime import memory as host_memory


@pytest.fixture(autouse=True)
def forget():
    yield
    device.cupy.cache_clear()
    device.gpu_trouble.cache_clear()
    device.unconnected.cache_clear()


def pretend(monkeypatch, *, driver=13000, built_for=13020, count=1, error=None):
    """A CuPy that finds this driver and so many GPUs, or fails so when they are counted."""

    class CUDARuntimeError(RuntimeError):
        status = 704  # cudaErrorPeerAccessAlreadyEnabled

    def get_device_count():
        if error:
            raise CUDARuntimeError(error)
        return count

    fake = types.ModuleType("cupy")
    fake.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    runtime = types.SimpleNamespace(
        driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: built_for,
        getDeviceCount=get_device_count,
        CUDARuntimeError=CUDARuntimeError,
    )
    fake.cuda = types.SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    device.cupy.cache_clear()
    device.gpu_trouble.cache_clear()
    return fake


def refused(wish="cuda"):
    with pytest.raises(InputError) as caught:
        device.select(wish)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("wish", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "cuda:1.5", "cuda:²"])
def test_a_wish_that_names_no_device_is_refused(wish):
    assert "is not one of auto, cpu, cuda" in refused(wish)


def test_the_cpu_says_its_threads():
    chosen = device.select("cpu")
    assert (chosen.kind, chosen.index) == ("cpu", 0)
    assert "threads" in chosen.description


def test_without_cupy(monkeypatch):
    monkeypatch.setattr(device, "find_spec", lambda name: None)
    device.cupy.cache_clear()
    device.gpu_trouble.cache_clear()
    chosen = device.select("auto")
    assert chosen.kind == "cpu"
    assert "CuPy is not installed" in chosen.no_gpu
    assert 'pip install "cupy-cuda13x[ctk]"' in refused()
    for card, advised in ("/none", False), ("/", True):  # advice only where there is a card
        monkeypatch.setattr(device, "_CARD_PATHS", (card,))
        device.gpu_trouble.cache_clear()
        assert ("no NVIDIA GPU is found on this machine" in refused()) == (
            not advised and sys.platform == "linux"
        )
        assert ("CuPy is not installed" in device_line(chosen)) == advised


def test_cupy_that_cannot_be_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(device, "find_spec", lambda name: object())
    device.cupy.cache_clear()
    assert "CuPy cannot be imported" in refused()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"driver": 0}, "there is no NVIDIA driver"),
        ({"driver": 12040}, "driver is for CUDA 12.4 and CuPy for CUDA 13.2"),
        ({"driver": 12040}, "cupy-cuda12x[ctk]"),
        ({"count": 0}, "sees no GPU"),
        ({"error": "cudaErrorNoDevice: no CUDA-capable device is detected"}, "cudaErrorNoDevice"),
    ],
)
def test_cause_and_remedy(monkeypatch, given, expected):
    pretend(monkeypatch, **given)
    assert expected in refused()
    chosen = device.select("auto")
    assert chosen.kind == "cpu"
    assert expected in chosen.no_gpu


def test_a_card_that_is_not_there(monkeypatch):
    pretend(monkeypatch, count=2)
    assert "there is no GPU 7, the last one is 1" in refused("cuda:7")


def pretend_cards(monkeypatch, count=2, unreached=(), switched_on=None):
    """So many cards that can be used, (card, other) in `unreached` apart."""
    fake, on = pretend(monkeypatch, count=count), [] if switched_on is None else switched_on
    current = []

    class Card:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            current.append(self.index)

        def __exit__(self, *_):
            current.pop()

    def enable(other):
        if (current[-1], other) in on:
            raise fake.cuda.runtime.CUDARuntimeError("it is on already")
        on.append((current[-1], other))

    fake.cuda.Device = Card
    fake.cuda.runtime.deviceCanAccessPeer = lambda card, other: (card, other) not in unreached
    fake.cuda.runtime.deviceEnablePeerAccess = enable
    fake.cuda.runtime.getDeviceProperties = lambda card: {"name": b"H200", "totalGlobalMem": 140 << 30}
    absent = "there is no GPU {}, the last one is " + str(count - 1)
    monkeypatch.setattr(device, "gpu_trouble", lambda card: "" if card < count else absent.format(card))
    return on


def test_cards_that_work_together(monkeypatch):
    on = pretend_cards(monkeypatch, 3)
    every, some = device.select("cuda:all"), device.select("cuda:2,0")
    assert (every.kind, every.index, every.cards) == ("cuda", 0, (0, 1, 2))
    assert (some.index, some.cards, some.description) == (2, (2, 0), "cuda:2,0 (each H200, 140 GiB)")
    assert [each.index for each in some.each] == [2, 0]
    assert sorted(set(on)) == sorted((a, b) for a in range(3) for b in range(3) if a != b)
    device.select("cuda:all")
    assert len(on) == 6


def test_access_that_is_on_already_is_no_trouble(monkeypatch):
    pretend_cards(monkeypatch, switched_on=[(0, 1), (1, 0)])
    assert device.select("cuda:all").cards == (0, 1)


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ("cuda:0,0", "names GPU 0 twice"),
        ("cuda:0,7", "there is no GPU 7, the last one is 1"),
        ("cuda:0,", "is not one of auto, cpu, cuda"),
        ("cuda:,", "is not one of auto, cpu, cuda"),
        ("cuda:0,x", "is not one of auto, cpu, cuda"),
        ("cuda:0, 1", "is not one of auto, cpu, cuda"),
        ("cpu:all", "is not one of auto, cpu, cuda"),
    ],
)
def test_cards_that_cannot_work_together(monkeypatch, wish, expected):
    pretend_cards(monkeypatch)
    assert expected in refused(wish)


def test_cards_that_do_not_reach_each_other(monkeypatch):
    pretend_cards(monkeypatch, unreached=[(1, 0)])
    assert "GPU 1 does not reach the memory of GPU 0" in refused("cuda:all")


def test_all_cards_where_there_are_none(monkeypatch):
    pretend(monkeypatch, driver=0)
    assert "device 'cuda:all' cannot be used: there is no NVIDIA driver" in refused("cuda:all")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (RuntimeError('Failure finding "libnvrtc.so.13": No such file'), "compiler library (NVRTC)"),
        (RuntimeError("cudaErrorLaunchFailure: unspecified launch failure"), "unspecified launch failure"),
    ],
)
def test_a_card_on_which_nothing_runs(monkeypatch, failure, expected):
    def fail(index):
        raise failure

    pretend(monkeypatch).cuda.Device = fail
    assert expected in device.select("auto").no_gpu
    assert expected in refused("cuda:0")


def test_the_list_of_devices_has_the_cpu_and_the_reason_for_no_gpu(monkeypatch):
    pretend(monkeypatch, driver=0)
    cpu, missing = device.devices()
    assert (cpu.device.kind, cpu.trouble) == ("cpu", "")
    assert "no NVIDIA driver" in missing.trouble


def test_importing_neither_imports_cupy_nor_reads_a_kernel():
    code = "import sys, textsvm.runtime.device, textsvm.kernels.edit.kernel; sys.exit('cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.gpu
class TestGpu:
    def test_selected_and_shown(self):
        chosen = device.select("auto")
        assert (chosen.kind, chosen.index) == ("cuda", 0)
        assert chosen.description.startswith("cuda:0 (")
        assert all(not found.trouble for found in device.devices())

    def test_a_module_is_loaded_once(self):
        with device.use(device.select("cuda:0")):
            assert device.load("probe.cu") is device.load("probe.cu")

    def test_loading_is_announced_once(self, monkeypatch):
        seen = []
        monkeypatch.setattr(device, "on_load", seen.append)
        device._load.cache_clear()
        for _ in range(2):
            device.load("probe.cu")
        assert seen == ["probe.cu"]

    def test_memory_is_counted_before_it_is_asked_for(self):
        with device.use(device.select("cuda:0")):
            free = device.free_memory()
            device.require_memory(free // 2, "a test")
            with pytest.raises(InputError, match=r"a test needs .* GiB of GPU memory and .* free; do less"):
                device.require_memory(free * 2, "a test", "do less")

    def test_running_out_of_memory_is_an_input_error(self):
        with pytest.raises(InputError, match="GPU memory ran out"), device.use(device.select("cuda:0")):
            device.cupy().empty(1 << 50, "uint8")

    def test_a_failing_call_is_an_input_error(self):
        with (
            pytest.raises(InputError, match=r"failed .*run with --device cpu"),
            device.use(device.select("cuda:0")),
        ):
            device.cupy().cuda.runtime.getDeviceProperties(9999)


def test_a_structure_holds_addresses_of_arrays():
    class OnCard:
        class data:
            ptr = 1 << 40

    kind = np.dtype([("F", np.uint64), ("n", np.int32), ("share", np.float64)], align=True)
    value = device.structure(kind, share=np.float64(0.5), F=OnCard(), n=3)
    assert (value.shape, value.dtype.names) == ((), None)
    assert value.view(kind).item() == (1 << 40, 3, 0.5)
    with pytest.raises(KeyError):
        device.structure(kind, F=OnCard(), n=3)
    with pytest.raises(ValueError, match="more"):
        device.structure(kind, F=OnCard(), n=3, share=0.5, more=1)


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def limits(tmp_path, membership):
    (tmp_path / "cgroup").write_text(membership)
    return list(host_memory.cgroup_memory(tmp_path / "cgroup", tmp_path / "fs"))


def test_memory_limits_of_control_groups_version_2(tmp_path):
    root = tmp_path / "fs"
    group(root / "a" / "b", memory__max=1000, memory__current=700, memory__stat="anon 600\ninactive_file 50")
    group(root / "a", memory__max="max", memory__current=900, memory__stat="inactive_file 0")
    assert limits(tmp_path, "0::/a/b\n") == [350]
    group(root / "a", memory__max=800)
    assert limits(tmp_path, "0::/a/b\n") == [350, 0]
    group(root, memory__max=5000, memory__current=1000, memory__stat="")
    assert limits(tmp_path, "0::/a/b\n") == [350, 0, 4000]
    assert limits(tmp_path, "0::/named/otherwise/outside\n") == [
        4000
    ]  # a container sees its group as the root


def test_memory_limits_of_control_groups_version_1(tmp_path):
    files = {"memory__limit_in_bytes": 1000, "memory__usage_in_bytes": 900}
    group(tmp_path / "fs" / "memory" / "job", **files, memory__stat="cache 5\ntotal_inactive_file 30")
    membership = "11:cpu,cpuacct:/job\n9:memory:/job\n1:name=systemd:/\n"
    assert limits(tmp_path, membership) == [130]
    assert limits(tmp_path, "9:cpu:/job\n") == []


def test_control_groups_that_cannot_be_read_limit_nothing(tmp_path):
    assert list(host_memory.cgroup_memory(tmp_path / "none", tmp_path)) == []
    assert limits(tmp_path, "0::/a\nnonsense\n0::/../../etc\n") == []
    group(tmp_path / "fs", memory__max="plenty", memory__current=1, memory__stat="")
    assert limits(tmp_path, "0::/\n") == []


def test_free_memory_of_the_host_heeds_the_limit_of_its_control_group(monkeypatch):
    monkeypatch.setattr(host_memory, "_available_memory", lambda: 10_000)
    monkeypatch.setattr(host_memory, "cgroup_memory", lambda membership, root: iter([7_000, 3_000]))
    assert device.free_memory(device.select("cpu")) == 3_000
    assert allowed_bytes(None, device.select("cpu")) == 1_500
    monkeypatch.setattr(host_memory, "cgroup_memory", lambda membership, root: iter([]))
    assert device.free_memory(device.select("cpu")) == 10_000
