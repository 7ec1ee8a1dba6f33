"""Which device is chosen, and what is said when a GPU cannot be used."""

import importlib.machinery
import sys
import types

import numpy as np
import pytest
from refusals import raising

from textsvm.cli.console import device_line
from textsvm.errors import InputError
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
    ("given", "wish", "expected"),
    [
        ({"driver": 0}, "cuda", "there is no NVIDIA driver"),
        ({"driver": 0}, "cuda:all", "device 'cuda:all' cannot be used: there is no NVIDIA driver"),
        ({"driver": 12040}, "cuda", "driver is for CUDA 12.4 and CuPy for CUDA 13.2"),
        ({"driver": 12040}, "cuda", "cupy-cuda12x[ctk]"),
        ({"count": 0}, "cuda", "sees no GPU"),
        ({"error": "cudaErrorNoDevice: no CUDA-capable device is detected"}, "cuda", "cudaErrorNoDevice"),
        ({"failure": 'Failure finding "libnvrtc.so.13": No such file'}, "cuda", "compiler library (NVRTC)"),
        ({"failure": "cudaErrorLaunchFailure: unspecified launch failure"}, "cuda:0", "launch failure"),
        ({"count": 2}, "cuda:7", "there is no GPU 7, the last one is 1"),
    ],
    ids=str,
)
def test_cause_and_remedy(monkeypatch, given, wish, expected):
    failure = RuntimeError(given.pop("failure", ""))
    pretend(monkeypatch, **given).cuda.Device = raising(failure)
    assert expected in refused(wish)
    if "count" not in given and wish != "cuda:all":
        chosen = device.select("auto")
        assert chosen.kind == "cpu"
        assert expected in chosen.no_gpu
    if "driver" in given and wish == "cuda":
        cpu, missing = device.devices()
        assert (cpu.device.kind, cpu.trouble) == ("cpu", "")
        assert expected in missing.trouble


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


@pytest.mark.parametrize("switched_on", [[], [(0, 1), (1, 0)]])
def test_cards_that_work_together(monkeypatch, switched_on):
    """Whether or not access is on already."""
    on = pretend_cards(monkeypatch, 3, switched_on=switched_on)
    every, some = device.select("cuda:all"), device.select("cuda:2,0")
    assert (every.kind, every.index, every.cards) == ("cuda", 0, (0, 1, 2))
    assert (some.index, some.cards, some.description) == (2, (2, 0), "cuda:2,0 (each H200, 140 GiB)")
    assert [each.index for each in some.each] == [2, 0]
    device.select("cuda:all")
    assert sorted(on) == sorted((a, b) for a in range(3) for b in range(3) if a != b)


UNKNOWN = [
    "", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "cuda:1.5", "cuda:\u00b2", "cuda:0,", "cuda:,",
    "cuda:0,x", "cuda:0, 1", "cpu:all",
]  # fmt: skip


@pytest.mark.parametrize(
    ("wish", "expected"),
    [(wish, "is not one of auto, cpu, cuda") for wish in UNKNOWN]
    + [
        ("cuda:0,0", "names GPU 0 twice"),
        ("cuda:0,7", "there is no GPU 7, the last one is 1"),
        ("cuda:all", "GPU 1 does not reach the memory of GPU 0"),
    ],
)
def test_a_wish_that_cannot_be_granted(monkeypatch, wish, expected):
    pretend_cards(monkeypatch, unreached=[(1, 0)])
    assert expected in refused(wish)


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


@pytest.mark.parametrize(
    ("groups", "membership", "expected"),
    [
        (
            {"a/b": (1000, 700, "anon 600\ninactive_file 50"), "a": ("max", 900, "inactive_file 0")},
            "0::/a/b",
            [350],
        ),
        ({"a/b": (1000, 700, "inactive_file 50"), "a": (800, 900, "")}, "0::/a/b", [350, 0]),
        ({"a": (800, 900, ""), "": (5000, 1000, "")}, "0::/a", [0, 4000]),
        (
            {"": (5000, 1000, "")},
            "0::/named/otherwise/outside",
            [4000],
        ),  # a container sees its group as the root
        ({"": ("plenty", 1, "")}, "0::/", []),
        ({}, "0::/a\nnonsense\n0::/../../etc", []),
        # Version 1; what groups below have cached is free.
        (
            {"memory/job": (1000, 900, "cache 5\ntotal_inactive_file 30")},
            "11:cpu,cpuacct:/job\n9:memory:/job\n1:name=systemd:/",
            [130],
        ),
        ({"memory/job": (1000, 900, "inactive_file 0\ntotal_inactive_file 300")}, "4:memory:/job", [400]),
        ({"memory/job": (1000, 900, "")}, "9:cpu:/job", []),
    ],
    ids=range(9),
)
def test_memory_limits_of_control_groups(tmp_path, write, groups, membership, expected):
    for name, (most, used, stat) in groups.items():
        folder = tmp_path / "fs" / name
        folder.mkdir(parents=True, exist_ok=True)
        names = ("max", "current") if "memory" not in name else ("limit_in_bytes", "usage_in_bytes")
        for file, value in zip((*names, "stat"), (most, used, stat), strict=True):
            (folder / f"memory.{file}").write_text(f"{value}\n")
    assert list(host_memory.cgroup_memory(tmp_path / "none", tmp_path)) == []
    assert list(host_memory.cgroup_memory(write("cgroup", f"{membership}\n"), tmp_path / "fs")) == expected
