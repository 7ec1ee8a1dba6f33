"""Private parts of other packages that textsvm uses: a sentence on the day when a release changes one.

Each part is used in a single module. `.ci/oldest` runs this file with the oldest versions that pyproject.toml
allows, `.ci/newest` with the newest, pre-releases included.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

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


#: Members of uvicorn's classes that `textsvm.apps.serve.server` calls, overrides or sets.
UVICORN = {
    "HttpToolsProtocol": (
        "_unset_keepalive_if_required", "connection_made", "connection_lost", "data_received",
        "on_message_begin", "on_header", "on_headers_complete", "on_body", "on_message_complete",
        "on_response_complete", "pause_writing", "resume_writing", "shutdown",
    ),
    "its objects": (
        "loop", "parser", "connections", "transport", "flow", "pipeline", "headers", "scope", "cycle",
    ),
    "FlowControl": ("pause_reading", "resume_reading", "write_paused"),
    "RequestResponseCycle": (
        "disconnected", "message_event", "response_started", "response_complete", "body", "more_body",
    ),
    "Server": ("_serve", "handle_exit", "server_state"),
}  # fmt: skip


def uvicorn_protocol() -> None:
    import uvicorn
    from uvicorn.server import ServerState

    from textsvm.apps.serve import server

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        objects["RequestResponseCycle"] = objects["its objects"].cycle
        body = (await receive())["body"]
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def two_requests() -> bytes:
        config = uvicorn.Config(partial(server._run_app, echo), interface="asgi3", lifespan="off")
        objects["Server"] = uvicorn.Server(config)

        def connection() -> Any:
            settings = {"config": config, "server_state": ServerState(), "app_state": {}}
            protocol = server._Connection(server.ClientLimits(), server._Turns(), **settings)
            objects["its objects"] = protocol
            return protocol

        listening = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2])
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" * 2)
        answers = await asyncio.wait_for(reader.readuntil(b"abc"), 10)
        answers += await asyncio.wait_for(reader.readuntil(b"abc"), 10)
        objects["FlowControl"] = objects["its objects"].flow
        writer.close()
        listening.close()
        return answers

    objects: dict[str, Any] = {"HttpToolsProtocol": server.HttpToolsProtocol}
    try:
        answers = asyncio.run(two_requests())
    except Exception as error:  # the names say more, if some are missing
        answers = repr(error).encode()
    members = [(kind, name) for kind in objects for name in UVICORN[kind]]
    missing = [f"{kind}.{name}" for kind, name in members if not hasattr(objects[kind], name)]
    assert not missing, f"there is no {', '.join(missing)}"
    assert answers.count(b"HTTP/1.1 200 OK") == 2, f"two requests got {answers!r}"


PARTS = [
    PrivatePart(
        "numba", "numba", ("FunctionCache", "IndexDataCacheFile"), "textsvm.runtime.compiled_cache",
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
        "uvicorn", "uvicorn", ("httptools_impl", "HttpToolsProtocol"), "textsvm.apps.serve.server",
        uvicorn_protocol, "adapt _Connection and _GracefulServer to the protocol of this release",
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
