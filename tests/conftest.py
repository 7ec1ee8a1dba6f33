"""Fixtures that several test files share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("textsvm", deadline=None, print_blob=True)
settings.load_profile("textsvm")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data():
    """The folder of the real corpora (TEXTSVM_DATA, default ../shared/data); skips where it is absent."""
    folder = Path(os.environ.get("TEXTSVM_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder} (set TEXTSVM_DATA)")
    return folder


@pytest.fixture
def device():
    """The CPU; GPU tests override it."""
    from textsvm.device import select

    return select("cpu")
