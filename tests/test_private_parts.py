"""Private parts of other packages that textsvm uses: a sentence on the day when a release changes one.

Each part is used in a single module. `.ci/oldest` runs this file with the oldest versions that pyproject.toml
allows, `.ci/newest` with the newest, pre-releases included.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


class PrivatePart(NamedTuple):
    """A private part, its only user, and what to do without it."""

    package: str  #: Name of the distribution
    imported: str  #: Package that is imported; the part is skipped without it
    words: tuple[str, ...]  #: Names that no other module of textsvm may contain
    module: str  #: Module of textsvm that uses the part
    works: Callable[[], None]  #: Raises an exception if the part does not work as `module` needs it
    remedy: str


def numba_cache() -> None:
    from textsvm.runtime import compiled

    function = compiled.njit(cache=True)(lambda values: values + values.sum())
    assert function(np.arange(3.0)).tolist() == [3, 4, 5]
    cache = function.dispatcher._cache
    assert type(cache).__name__ == "CheckedCache", "the dispatcher replaced the cache"
    for name in ("_impl", "_cache_path", "_cache_file"):
        assert hasattr(cache, name), f"the cache has no {name}"
    for name in (
        "_source_stamp",
        "_index_path",
        "_data_path",
        "_load_index",
        "_load_data",
        "_open_for_write",
    ):
        assert hasattr(cache._cache_file, name), f"the files of the cache have no {name}"


def numba_lock() -> None:
    from textsvm.runtime.compiled_cache import compiler_lock

    with compiler_lock():
        assert compiler_lock().is_locked()


def cupy_modules() -> None:
    from cupy import _core
    from cupy.cuda import compiler

    parameters = list(inspect.signature(compiler._compile_module_with_cache).parameters)
    assert parameters[:2] == ["source", "options"], f"its parameters are {parameters}"
    assert "CUPY_CACHE_KEY" in vars(_core.core), "cupy._core.core has no CUPY_CACHE_KEY"


def sklearn_output() -> None:
    from sklearn.base import clone

    from textsvm import SpectrumFeatures

    features = clone(SpectrumFeatures(2).set_output(transform="pandas"))
    assert vars(features)["_sklearn_output_config"] == {"transform": "pandas"}


PARTS = [
    PrivatePart(
        "numba", "numba", ("CacheImpl", "CompileResultCacheImpl", "FunctionCache", "IndexDataCacheFile"),
        "textsvm.runtime.compiled_cache",
        numba_cache, "adapt CheckedCache, or let `njit(cache=True)` cache without checks",
    ),
    PrivatePart(
        "numba", "numba", ("global_compiler_lock",), "textsvm.runtime.compiled_cache",
        numba_lock, "adapt compiler_lock to the lock that Numba holds while it compiles",
    ),
    PrivatePart(
        "cupy-cuda13x", "cupy", ("_compile_module_with_cache", "CUPY_CACHE_KEY"), "textsvm.runtime.device",
        cupy_modules, "adapt load_shipped_code; without it kernels are compiled at the first call",
    ),
    PrivatePart(
        "scikit-learn", "sklearn", ("_sklearn_output_config",), "textsvm.estimators.features",
        sklearn_output, "adapt SpectrumFeatures._in_container; without it sparse pandas output is refused",
    ),
]  # fmt: skip


def described(part: PrivatePart) -> str:
    try:
        return f"{part.package} {version(part.package)}"
    except PackageNotFoundError:
        return part.package


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.words[0])
def test_private_parts_work(part):
    try:
        import_module(part.imported)
    except ImportError:
        pytest.skip(f"{part.imported} is not installed")
    try:
        part.works()
    except Exception as error:
        pytest.fail(
            f"{described(part)}: {' and '.join(part.words)} no longer work as {part.module} needs them "
            f"({error}); {part.remedy}, or exclude this version in pyproject.toml",
            pytrace=False,
        )


def test_a_single_module_uses_each_part():
    texts = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text("utf-8")
        for path in (ROOT / "textsvm").rglob("*.py")
    }
    users = {(word, name) for part in PARTS for word in part.words for name in texts if word in texts[name]}
    assert users == {(word, part.module) for part in PARTS for word in part.words}
