"""Record the sources of CuPy's own kernels that textsvm uses, on a machine with a GPU.

CuPy writes these sources from types, layouts and sizes of arrays while it runs. Run this after a change of
array operations or of CuPy's version: every training of `textsvm devices --compile`, and the calls of
benchmarks/first_call.py, which need the public corpora; a minute in all. Entries recorded before stay if
CuPy's headers are the same; `--anew` drops them.
"""

from __future__ import annotations

import json
import sys

from benchmarks.corpora import paper_tasks
from benchmarks.first_call import CALLS
from benchmarks.harness import data_folder
from textsvm.cli.devices import trainings
from textsvm.runtime import device as gpu
from wheels.kernels_cuda13.build import RECORDED


def main() -> None:
    """Run the calls, and add what CuPy compiles or reads from its cache."""
    cupy = gpu.cupy()
    compiler, headers = cupy.cuda.compiler, cupy._core.core.CUPY_CACHE_KEY
    compile_module, modules = compiler._compile_module_with_cache, set()
    if RECORDED.exists() and "--anew" not in sys.argv:
        recorded = json.loads(RECORDED.read_text("utf-8"))
        modules = {
            (tuple(each), source) for each, source in recorded["modules"] if recorded["headers"] == headers
        }

    def record(source: str, options: tuple[str, ...] = (), **settings: object) -> object:
        if "#include <cupy/" in source and not settings.get("name_expressions"):
            modules.add((tuple(option for option in options if not option.startswith("-I")), source))
        return compile_module(source, options, **settings)

    compiler._compile_module_with_cache = record
    task = paper_tasks(data_folder(), 100)[0]
    for call in [*trainings("cuda").values(), *(make(task) for make in CALLS.values())]:
        call()
    content = {"cupy": cupy.__version__, "headers": headers, "modules": sorted(modules)}
    RECORDED.write_text(json.dumps(content, indent=0) + "\n", "utf-8")
    print(f"{len(modules)} sources in {RECORDED}")


if __name__ == "__main__":
    main()
