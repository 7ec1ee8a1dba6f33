"""`pytest --require-gpu`: a run that was meant for a GPU and ran no gpu test fails, also by pytest-xdist."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = """
import pytest

def test_cpu():
    pass

@pytest.mark.gpu
@pytest.mark.skipif({skipped}, reason="there is one GPU only")
def test_gpu():
    pass
"""


@pytest.mark.parametrize(
    ("skipped", "options", "status"),
    [(False, [], 0), (True, [], 5), (False, ["-n", "2"], 0), (False, ["-n", "2", "-m", "not gpu"], 5)],
    ids=["run", "skipped", "run by workers", "left out by workers"],
)
def test_exit_status(skipped, options, status, tmp_path):
    if "-n" in options:
        pytest.importorskip("xdist")
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu\n", encoding="utf-8")
    (tmp_path / "test_any.py").write_text(TESTS.format(skipped=skipped), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--require-gpu", *options],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
