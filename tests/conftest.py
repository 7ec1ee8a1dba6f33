"""Fixtures that several test files share, and what a test marked `gpu` needs."""

import csv
import locale
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("textsvm", deadline=None, print_blob=True)
settings.load_profile("textsvm")

# Many images set this. Then every process compiles each module that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ROOT = Path(__file__).resolve().parent.parent
START = time.monotonic()
#: So many files of tests do not start workers.
FEW = 4

#: The gpu tests that ran. Reports reach the controller of pytest-xdist too, which collects no tests itself.
GPU_TESTS: set[str] = set()


def pytest_addoption(parser):
    parser.addoption("--require-gpu", action="store_true", help="fail if no gpu test was run")
    parser.addoption(
        "--start-within",
        type=float,
        metavar="SECONDS",
        help="skip the tests whose turn comes later than this",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Processes of `-n auto`: every core, up to 8; a few files, and tests of a GPU, run in this process."""
    few_files = len(config.args) <= FEW and all(".py" in path for path in config.args)
    if few_files or re.search(r"(?<!not )\bgpu\b", config.option.markexpr):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)


def pytest_runtest_setup(item):
    within = item.config.getoption("--start-within")
    if within is not None and time.monotonic() - START > within:
        pytest.skip(f"its turn came later than {within:g} s after the start")
    if item.get_closest_marker("gpu") and not item.config.getoption("--require-gpu"):
        from textsvm.runtime.device import gpu_trouble

        if trouble := gpu_trouble(0):
            pytest.skip(f"no GPU: {trouble}")


def pytest_runtest_logreport(report):
    if report.when == "call" and not report.skipped and "gpu" in report.keywords:
        GPU_TESTS.add(report.nodeid)


def pytest_sessionfinish(session):
    if session.config.getoption("--require-gpu") and not GPU_TESTS:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def process_settings():
    """Settings of this process and of the standard library, which every test must leave as they were."""
    return {
        "csv.field_size_limit": csv.field_size_limit(),
        **{f"environment: {name}": hash(value) for name, value in os.environ.items()},
        "folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "sys.argv": [*sys.argv],
        "recursion limit": sys.getrecursionlimit(),
        "streams": (sys.stdin, sys.__stdout__, sys.__stderr__),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "timeout of sockets": socket.getdefaulttimeout(),
    }


@pytest.fixture
def store(taught, tmp_path, monkeypatch):
    """A copy of the mail store `taught` of a test file, which is where TEXTSVM_MAIL leads."""
    folder = tmp_path / "store"
    shutil.copytree(taught, folder)
    folder.chmod(0o700)
    monkeypatch.setenv("TEXTSVM_MAIL", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _settings_come_back():
    before = process_settings()
    yield
    after = process_settings()
    # Libraries set further variables when they are imported; pytest names the phase of a test in one.
    known = before.keys() - {"environment: PYTEST_CURRENT_TEST"}
    assert [name for name in known if after.get(name) != before[name]] == []


@pytest.fixture(scope="session")
def data():
    """The folder of the real corpora (TEXTSVM_DATA, default ../shared/data); skips where it is absent."""
    folder = Path(os.environ.get("TEXTSVM_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder} (set TEXTSVM_DATA)")
    return folder


@pytest.fixture
def device(request):
    """The CPU, or GPU 0 in a test marked `gpu`."""
    from textsvm.runtime.device import select

    return select("cuda:0" if request.node.get_closest_marker("gpu") else "cpu")


@pytest.fixture
def write(tmp_path):
    """Write a file of the test's folder, and return its path."""

    def write(name, data):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return write


@pytest.fixture
def set_values(monkeypatch):
    """Set attributes of an object for the time of the test."""

    def set_values(owner, **values):
        for name, value in values.items():
            monkeypatch.setattr(owner, name, value)

    return set_values


@pytest.fixture
def read_only():
    """Command to be followed by a folder, read-only for root too, and by the command that runs meanwhile."""
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    command = ["unshare", "-r", "-m", "sh", "-c", mount]
    try:
        subprocess.run([*command, "/etc", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs namespaces of mounts")
    return command
